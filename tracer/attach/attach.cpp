#include "tracer/attach/attach.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "gpu/build/activity_agent.h"
#include "gpu/build/dry_run.h"
#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/file_trust.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/process/running_process.h"
#include "platform/text/glob.h"
#include "tracer/attach/attach_sources.h"
#include "tracer/attach/attach_target.h"
#include "tracer/attach/listening.h"
#include "tracer/attach/passed_descriptor.h"
#include "tracer/attach/stopped_thread.h"
#include "tracer/attach/text_thread.h"
#include "tracer/attach/thread_control.h"
#include "tracer/collect/op_selection.h"
#include "tracer/connection/process_message.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/sealed_copy.h"
#include "tracer/connection/target_agents.h"
#include "tracer/connection/target_description.h"
#include "tracer/probes/probe_session.h"

namespace optrace {
namespace {

namespace message = protocol::message;
namespace order = protocol::order;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// Holds the numbers 0 to 2 that a process has closed, for as long as a socket would get them: a
/// write to a descriptor that is only a path fails as if it were closed.
class HeldNumbers {
 public:
  /// There is the path "/" at `memory` in the process.
  HeldNumbers(const RunningProcess& process, StoppedThread& thread, std::uint64_t memory)
      : thread_(thread) {
    for (const int number : {0, 1, 2}) {
      const std::string link = fmt::format("/proc/{}/fd/{}", process.id(), number);
      if (::faccessat(AT_FDCWD, link.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
      constexpr auto kCurrent = static_cast<std::uint64_t>(AT_FDCWD);
      const std::int64_t held =
          thread.system_call(SYS_openat, {kCurrent, memory, O_PATH | O_CLOEXEC});
      if (held >= 0) held_.push_back(static_cast<std::uint64_t>(held));
    }
  }
  ~HeldNumbers() {
    try {
      for (const std::uint64_t number : held_) thread_.system_call(SYS_close, {number});
    } catch (const Error&) {
      held_.clear();  // The process has ended.
    }
  }
  HeldNumbers(const HeldNumbers&) = delete;
  HeldNumbers& operator=(const HeldNumbers&) = delete;

 private:
  StoppedThread& thread_;
  std::vector<std::uint64_t> held_;
};

/// Makes a running interpreter start a thread for attach.py, and connects to it.
class Injection {
 public:
  /// Waits up to `timeout` for a thread that can call the interpreter.
  Injection(const RunningProcess& process, const AttachTarget& target,
            std::chrono::milliseconds timeout)
      : target_(target), process_(process), code_(find_calling_code(process)), timeout_(timeout) {}

  /// Leaves nothing in the process if its interpreter has not made the pending call yet.
  ~Injection() {
    if (page_ == 0 || taken_) return;
    try {
      withdraw();
    } catch (const Error&) {
      page_ = 0;  // The process has ended.
    }
  }
  Injection(const Injection&) = delete;
  Injection& operator=(const Injection&) = delete;

  ProgramConnection gain() {
    StoppedThread thread(target_.process, code_, timeout_);
    put_text(thread);
    const std::uint64_t passing = page_ + size_ - kPassingBytes;
    write(passing, std::as_bytes(std::span("/")));
    const HeldNumbers held(process_, thread, passing);
    thread.call(page_ + connect_offset(), {data()});
    TextThread placed;
    read(data(), std::as_writable_bytes(std::span(&placed, 1)));
    if (placed.error != 0) {
      thread.system_call(SYS_munmap, {page_, placed.size});
      page_ = 0;
      if (placed.error == kNoInterpreter) {
        throw Error(ExitStatus::usage,
                    fmt::format("the Python of process {} has ended, or is ending; the process "
                                "goes on without it",
                                target_.process),
                    "Attach while its Python runs.");
      }
      if (placed.error == kFull) {
        throw Error(ExitStatus::failed,
                    fmt::format("the main thread of process {} ran no Python code for so long that "
                                "its Python takes no more calls",
                                target_.process),
                    "Attach when it runs.");
      }
      refused("make a socket", placed.error);
    }
    // The process closes its copy of this end when it has received something.
    return ProgramConnection(pass_descriptor(process_, thread, placed.ends[0], passing));
  }

  /// The interpreter executes the text, which removes what was put into the process.
  void taken() { taken_ = true; }

 private:
  void put_text(StoppedThread& thread) {
    // The process fills in the descriptors.
    const std::string blank(kDescriptorDigits, ' ');
    const std::string first = fmt::format("exec({},{{\"other_end\":int(\"{}",
                                          python_literal(read_target_source("attach.py")), blank);
    const std::string second = fmt::format("{}\"),\"descriptor\":int(\"{}", first, blank);
    const std::string text = second + "\")})";
    // At least one byte that ends the text, and at the end the memory for passing a descriptor.
    const std::uint64_t used = sizeof(TextThread) + text.size() + 1 + kPassingBytes;
    size_ = kPage + (used + kPage - 1) / kPage * kPage;
    const std::int64_t page = thread.system_call(
        SYS_mmap, {0, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, ~0ULL, 0});
    if (page <= 0) refused("map memory", page);
    page_ = static_cast<std::uint64_t>(page);
    const TextThread call{.system_call = code_.system_call,
                          .start_thread = target_.start_thread,
                          .ensure_gil = target_.ensure_gil,
                          .release_gil = target_.release_gil,
                          .run_text = target_.run_simple_string,
                          .memory = page_,
                          .size = size_,
                          .add_pending_call = target_.add_pending_call,
                          .process = static_cast<std::uint64_t>(target_.process_inside),
                          .digits = {data() + sizeof(TextThread) + first.size(),
                                     data() + sizeof(TextThread) + second.size()},
                          .lowest_end = lowest_end(),
                          .is_initialized = target_.is_initialized};
    write(page_, text_thread_code());
    write(data(), std::as_bytes(std::span(&call, 1)));
    write(data() + sizeof call, std::as_bytes(std::span(text)));
    const std::int64_t executable =
        thread.system_call(SYS_mprotect, {page_, kPage, PROT_READ | PROT_EXEC});
    if (executable != 0) {
      thread.system_call(SYS_munmap, {page_, size_});
      page_ = 0;
      refused("execute memory", executable);
    }
  }

  /// Numbers that the program does not use: it may write to a standard error that it has closed.
  std::uint64_t lowest_end() const {
    constexpr rlim_t kHigh = 1000, kRoom = 16;
    rlimit limit{};
    if (::prlimit(target_.process, RLIMIT_NOFILE, nullptr, &limit) != 0) return 0;
    return std::min(kHigh, limit.rlim_cur - std::min(limit.rlim_cur, kRoom));
  }

  /// Address of the TextThread.
  std::uint64_t data() const { return page_ + kPage; }

  // A pending call can't be removed: this one only cleans up when it is made.
  void withdraw() {
    StoppedThread thread(target_.process, code_, timeout_);
    constexpr std::uint64_t kYes = 1;
    TextThread placed;
    write(data() + offsetof(TextThread, withdrawn), std::as_bytes(std::span(&kYes, 1)));
    read(data(), std::as_writable_bytes(std::span(&placed, 1)));
    // Once called, the code closes the sockets itself.
    if (placed.taken != 0 || placed.error != 0) return;
    for (const int end : placed.ends)
      thread.system_call(SYS_close, {static_cast<std::uint64_t>(end)});
  }

  [[noreturn]] void refused(const char* doing, std::int64_t result) const {
    throw Error(ExitStatus::failed,
                fmt::format("process {} can't {}: {}", target_.process, doing,
                            describe_errno(static_cast<int>(-result))),
                "Its limits (ulimit, cgroup, seccomp) are too strict for tracing, also with "
                "`optrace run`.");
  }

  void write(std::uint64_t address, std::span<const std::byte> bytes) const {
    const iovec from{const_cast<std::byte*>(bytes.data()), bytes.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const iovec to{reinterpret_cast<void*>(address), bytes.size()};
    if (::process_vm_writev(target_.process, &from, 1, &to, 1, 0) < 0)
      throw why_not_allowed(target_.process, errno);
  }

  void read(std::uint64_t address, std::span<std::byte> bytes) const {
    const iovec to{bytes.data(), bytes.size()};
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const iovec from{reinterpret_cast<void*>(address), bytes.size()};
    if (::process_vm_readv(target_.process, &to, 1, &from, 1, 0) !=
        static_cast<ssize_t>(bytes.size()))
      throw why_not_allowed(target_.process, errno);
  }

  const AttachTarget& target_;
  const RunningProcess& process_;
  const CallingCode code_;
  const std::chrono::milliseconds timeout_;
  /// In the process: text_thread_code(), then the TextThread and the text.
  std::uint64_t page_ = 0;
  std::uint64_t size_ = 0;  ///< Of that memory, in bytes.
  bool taken_ = false;
};

/// The tracing of one process, from its inspection to its release.
class Attachment {
 public:
  Attachment(const AttachRequest& request, const AttachListener& progress)
      : request_(request),
        progress_(progress),
        listens_(connect_to_listening(request.process) != nullptr),
        target_(inspect_attach_target(request.process,
                                      listens_ ? Entrance::socket : Entrance::ptrace)) {}

  AttachResult run(const BuildProgress& building) {
    orders_.plan(
        {.torch = target_.torch_folder, .modules = {target_.interpreter}, .cuda = uses_cuda()},
        [&building](const std::filesystem::path& torch_folder, bool devices) {
          return find_or_build_agents(torch_folder, devices, building);
        });
    connect();
    begin();
    const bool alive = watch();
    return end(alive);
  }

 private:
  /// Returns true if a driver is loaded, a real or an emulated one.
  bool uses_cuda() const {
    return std::ranges::any_of(process_.mapped_parts(), [](const MappedPart& part) {
      return std::filesystem::path(part.path).filename().string().starts_with("libcuda.so");
    });
  }

  /// Returns the functions whose returned values are recorded: none in a container, whose torch
  /// nothing but the readers of its libraries looks at.
  KnownResults results() const {
    return request_.results && target_.root.empty() ? request_.results(target_.torch_folder)
                                                    : KnownResults{};
  }

  /// Returns true if the process runs as the command's own user, with no other user's rights.
  bool is_our_users() const {
    const auto users = process_.status().users;
    return std::ranges::all_of(users, [](auto user) { return user == ::geteuid(); });
  }

  /// Returns why nothing is compiled from the process's headers or loaded into it; empty if it may
  /// be. Code that is compiled from them may later run with the command's rights.
  std::string why_no_agents() const {
    if (!target_.root.empty()) {
      return "Op records are missing: the process runs in a container, and optrace compiles "
             "nothing for the torch of a container. Run optrace inside the container to get them.";
    }
    if (!is_our_users()) {
      return "Op records and records of device activity are missing: the process belongs to "
             "another user, and optrace compiles nothing for the torch of another user. Run "
             "optrace as that user to get them.";
    }
    for (const char* const part : {"include", "lib/libc10.so", "version.py"}) {
      const auto path = target_.torch_folder / part;
      std::error_code error;
      if (!std::filesystem::exists(path, error)) continue;
      if (const std::string wrong = distrust_of(path); !wrong.empty()) {
        return fmt::format(
            "Op records and records of device activity are missing: optrace compiles nothing for a "
            "torch that others can change, and {}.",
            shown(wrong));
      }
    }
    return {};
  }

  void connect() {
    if (listens_) {
      connection_ = connect_to_listening(request_.process);
      if (!connection_) {
        throw Error(ExitStatus::failed,
                    fmt::format("process {} ended, or listens no longer", request_.process),
                    "Run the command again if the process still runs.");
      }
      connection_->send(line_of_sources());
      wait_for_answer(
          "The process accepts connections, but its Python does not run: a call holds the GIL.");
    } else {
      Injection injection(process_, target_, request_.timeout);
      connection_ = std::make_unique<ProgramConnection>(injection.gain());
      connection_->send(line_of_sources());
      wait_for_answer("It sleeps, waits, or is in a long call.");
      injection.taken();
    }
    const ProcessMessage hello = process_in(connection_->receive(message::kProgram, kAnswerLimit));
    meta_ =
        orders_.meta(connection_->receive(message::kImported, kAnswerLimit), command_line(hello));
    meta_.process.id = static_cast<std::uint64_t>(request_.process);
  }

  /// Waits until the interpreter sends a message, or a signal arrives.
  void wait_for_answer(const char* reason) const {
    if (connection_->wait(request_.timeout)) return;
    throw Error(
        ExitStatus::failed,
        fmt::format("the main thread of process {} ran no Python code for {:g} seconds",
                    request_.process, std::chrono::duration<double>(request_.timeout).count()),
        fmt::format("{} Attach when it runs, or wait longer with --timeout SECONDS. The process "
                    "was not changed.",
                    reason));
  }

  /// Returns true if the process has ended, which may be a moment after its connection closed.
  bool has_ended() const {
    constexpr int kMaxPauses = 100;
    for (int i = 0; i < kMaxPauses && !process_.ended(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
    return process_.ended();
  }

  static std::string command_line(const ProcessMessage& hello) {
    std::string line;
    for (const std::string& argument : hello.arguments)
      line += fmt::format("{}{}", line.empty() ? "" : " ", shown(argument));
    return hello.arguments.empty() ? "python" : line;
  }

  void begin() {
    traps_.emplace(request_.process);
    RecordOrder record = orders_.record(request_);
    record.timeout = std::chrono::duration<double>(request_.timeout).count();
    std::vector<Descriptor> descriptors;
    descriptors.push_back(sealed_region(region_bytes(request_.target_bytes)));
    if (!sees_our_files()) add_files(record, descriptors);
    connection_->send(line_of(record), descriptors);
    receive_recording(*connection_, meta_);
    collector_ =
        std::make_unique<Collector>(descriptors.front().get(), session_, request_.collector);
    connection_->send(line_of(order::kStart));
    add_warnings(meta_, connection_->receive(message::kStarted, request_.timeout + kAnswerLimit));
  }

  bool sees_our_files() const { return target_.root.empty() && is_our_users(); }

  /// For a process that can't open our files by name, and must not get descriptors of them.
  void add_files(RecordOrder& record, std::vector<Descriptor>& descriptors) const {
    record.files = orders_.files();
    for (const std::filesystem::path& file : *record.files)
      descriptors.push_back(sealed_copy(file));
  }

  /// Returns false if the process has ended.
  bool watch() {
    start_ = Clock::now();
    Clock::time_point shown = start_;
    constexpr std::chrono::seconds kShowEvery{1};
    while (true) {
      // Check first: everything recorded before the end can then be read.
      const bool ended = process_.ended();
      const bool awaited = collector_->is_awaited();
      const bool more = collector_->drain(Collector::kBatch) >= Collector::kBatch;
      if (ended) return false;
      const Clock::time_point now = Clock::now();
      if (enough(now - start_)) return true;
      if (InterruptGuard::interrupted()) {
        // The signal ends the trace; a second one also ends what follows.
        InterruptGuard::clear();
        return true;
      }
      if (now - shown >= kShowEvery) {
        shown = now;
        tell(false);
      }
      pollfd watched{connection_->descriptor(), POLLIN, 0};
      const milliseconds pause = awaited ? Collector::kAwaitedPause : Collector::kPause;
      if (::poll(&watched, 1, more ? 0 : static_cast<int>(pause.count())) <= 0) continue;
      try {
        if (!connection_->poll()) continue;
      } catch (const Error&) {
        if (has_ended()) return false;
        throw;
      }
      throw Error(ExitStatus::failed, "the process sent an unexpected message",
                  "Run the command again. If it fails again, report it.");
    }
  }

  void tell(bool done) const {
    progress_({Clock::now() - start_, collector_->progress(), collector_->op_counts()}, done);
  }

  bool enough(std::chrono::duration<double> time) {
    if (const std::uint64_t count = request_.collector.selection.count; count != 0) {
      // The last op has ended when another one begins, which may not happen.
      constexpr milliseconds kLastOp{500};
      const std::uint64_t ops = collector_->progress().ops;
      if (ops < count) last_op_.reset();
      if (ops >= count && !last_op_) last_op_ = Clock::now();
      if (ops > count || (last_op_ && Clock::now() - *last_op_ > kLastOp)) return true;
    }
    if (request_.duration && time >= *request_.duration) return true;
    if (request_.until_op.empty()) return false;
    const std::vector<OpCount> ops = collector_->op_counts();
    return std::ranges::any_of(
        ops, [this](const OpCount& op) { return matches_glob(op.name, request_.until_op); });
  }

  AttachResult end(bool alive) {
    AttachResult result;
    try {
      if (alive) stop();
    } catch (const Error& error) {
      if (error.status() == ExitStatus::interrupted) throw;
      alive = false;
    }
    if (!alive) {
      result.ended =
          fmt::format("process {} ended while it was traced; the trace covers the time until then",
                      request_.process);
      collector_->finish();
    }
    tell(true);
    result.trace = collector_->take(std::move(meta_));
    complete_trace(result.trace, dry_run_ ? &*dry_run_ : nullptr);
    return result;
  }

  void stop() {
    connection_->send(line_of(order::kStop));
    connection_->receive(message::kStopped, kAnswerLimit);
    collector_->finish();
    receive_tables(*connection_, collector_->ops(), meta_);
    connection_->receive(message::kLeft, kAnswerLimit);
    // Closing the connection is the last action of its thread.
    connection_->wait(kAnswerLimit);
  }

  const AttachRequest& request_;
  const AttachListener& progress_;
  std::optional<UnblockedTraps> traps_;
  std::unique_ptr<ProgramConnection> connection_;
  const bool listens_;
  const AttachTarget target_;
  const RunningProcess process_{request_.process};
  PrivateFolder scratch_;
  ProbeSession session_{scratch_.path(), results()};
  const std::optional<DryRun> dry_run_ = dry_run_of(process_);
  TracingOrders orders_{session_, ProbeMode::jump, dry_run_ ? &*dry_run_ : nullptr, target_.root,
                        why_no_agents()};
  TraceMeta meta_;
  std::unique_ptr<Collector> collector_;
  Clock::time_point start_;                   ///< Start of the recording.
  std::optional<Clock::time_point> last_op_;  ///< Time at which the last requested op was seen.
};

}  // namespace

AttachResult attach(const AttachRequest& request, const BuildProgress& building,
                    const AttachListener& progress) {
  return Attachment(request, progress).run(building);
}

}  // namespace optrace
