#include "tracer/launch/op_tracer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <span>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gpu/build/activity_agent.h"
#include "platform/elf/processor.h"
#include "platform/error.h"
#include "platform/files/descriptor.h"
#include "platform/files/installation.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "tracer/collect/collector.h"
#include "tracer/connection/message_contents.h"
#include "tracer/connection/program_socket.h"
#include "tracer/connection/protocol.h"
#include "tracer/connection/sealed_copy.h"
#include "tracer/connection/target_agents.h"
#include "tracer/connection/target_description.h"
#include "tracer/connection/target_messages.h"
#include "tracer/connection/tracing_orders.h"
#include "tracer/launch/op_messages.h"
#include "tracer/probes/probe_session.h"

namespace optrace {
namespace {

namespace order = protocol::order;
namespace message = protocol::message;
using Clock = std::chrono::steady_clock;

constexpr int kTargetDescriptor = 3;                // The socket's descriptor number in the target.
constexpr std::size_t kKeptOutput = 64 << 10;       // Bytes of the target's own output.
constexpr std::uint64_t kCallBytes = 128ULL << 20;  // An eighth is for the log of tensors.
// Address space of a recording; only what is written to takes memory. Most calls fill a small part
// of it, so nothing reads while they run.
constexpr std::uint64_t kRegionBytes = 256ULL << 20;

std::pair<Descriptor, Descriptor> checked_pair(int result, const std::array<int, 2>& numbers) {
  if (result != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot communicate with a child process: {}", describe_errno(errno)),
                "Close some files or programs and try again.");
  }
  return {Descriptor(numbers[0]), Descriptor(numbers[1])};
}

/// Returns the last lines that the target printed, indented, or an empty string.
std::string last_lines(const std::string& text) {
  constexpr std::size_t kLines = 10;
  std::vector<std::string> lines;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) lines.push_back(displayable(text.substr(start, end - start), 300));
    start = end + 1;
  }
  std::string result;
  for (std::size_t i = lines.size() - std::min(lines.size(), kLines); i < lines.size(); ++i)
    result += "\n    " + lines[i];
  return result.empty() ? result : "\nIts last output:" + result;
}

/// Returns the processor that an ELF file is for, if it is not x86-64; nullopt for other files.
std::optional<std::string> foreign_processor(const std::filesystem::path& path) {
  Elf64_Ehdr header{};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(&header), sizeof header);
  if (!file || !std::equal(header.e_ident, header.e_ident + SELFMAG, ELFMAG)) return std::nullopt;
  if (header.e_machine == EM_X86_64) return std::nullopt;
  return processor_name(header.e_machine);
}

/// A problem reported by the target, which continues to run.
class TargetProblem : public Error {
 public:
  explicit TargetProblem(Error error) : Error(std::move(error)) {}
};

/// The traced process, with its socket and the pipe for its output.
class Target {
 public:
  explicit Target(const LaunchRequest& request) : Target(request, Ends()) {}

  /// Returns the next message, which must be of this kind. `doing` describes what the target is
  /// doing. Meanwhile, looks after its recording if it has a `collector`.
  TargetMessage receive(const std::string& kind, const std::string& doing,
                        Collector* collector = nullptr) {
    const Clock::time_point end = Clock::now() + request_.timeout;
    std::optional<TargetMessage> received;
    while (!(received = poll(doing))) {
      if (Clock::now() >= end) throw hangs(doing);
      listen(doing, collector != nullptr ? Collector::kPause : kLongestWait);
      if (collector != nullptr) look_after(*collector);
    }
    if (received->kind() == message::kProblem) throw TargetProblem(problem_in(*received));
    if (received->kind() != kind) {
      throw Error(ExitStatus::failed,
                  fmt::format("the traced Python sent '{}' instead of '{}'",
                              displayable(received->kind(), 40), kind),
                  kReport);
    }
    heard_ = true;
    return std::move(*received);
  }

  /// If the target has died, the next receive() throws.
  void send(std::string_view line, std::span<const Descriptor> descriptors = {}) {
    try {
      connection_.send(line, descriptors);
    } catch (const ConnectionEnded&) {
      InterruptGuard::throw_if_interrupted();
    }
  }

  /// Lets the target exit by itself, and returns its output.
  std::string finish() {
    constexpr std::chrono::seconds kLimit{2};  // The target only has to exit.
    process_.wait_for(kLimit);
    drain_output();
    return std::move(printed_);
  }

 private:
  /// Both ends of the socket and of the pipe. The target's ends are closed here once it has them.
  struct Ends {
    Ends() {
      std::array<int, 2> numbers{};
      std::tie(socket, their_socket) = checked_pair(
          ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, numbers.data()), numbers);
      std::tie(output, their_output) =
          checked_pair(::pipe2(numbers.data(), O_CLOEXEC | O_NONBLOCK), numbers);
      // The target's end must block, or print() would raise BlockingIOError.
      ::fcntl(their_output.get(), F_SETFL, 0);
    }

    Descriptor socket, their_socket, output, their_output;
    Descriptor nothing{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
  };

  Target(const LaunchRequest& request, Ends ends)
      : request_(request),
        connection_(std::move(ends.socket)),
        output_(std::move(ends.output)),
        process_({.arguments = {request.python.string(), (data_folder() / "target").string(),
                                std::to_string(kTargetDescriptor)},
                  .environment = request.dry_run ? request.dry_run->environment()
                                                 : decltype(ChildProcess::Options::environment)(),
                  .descriptors = {{ends.their_socket.get(), kTargetDescriptor},
                                  {ends.nothing.get(), STDIN_FILENO},
                                  {ends.their_output.get(), STDOUT_FILENO},
                                  {ends.their_output.get(), STDERR_FILENO}}}) {}

  /// The maximum delay until a signal that arrives just before poll() is handled.
  static constexpr std::chrono::milliseconds kLongestWait{100};

  /// Returns the next message if it is complete.
  std::optional<TargetMessage> poll(const std::string& doing) {
    try {
      return connection_.poll();
    } catch (const ConnectionEnded&) {
      throw ended(doing);
    }
  }

  /// Lets the collector read if the target waits for it, and otherwise tells the target that its
  /// reader is alive.
  static void look_after(Collector& collector) {
    if (collector.is_awaited())
      collector.drain();
    else
      collector.send_heartbeat();
  }

  /// Waits for a message or output, and takes the output.
  void listen(const std::string& doing, std::chrono::milliseconds longest) {
    InterruptGuard::throw_if_interrupted();
    std::array<pollfd, 2> watched{
        {{connection_.descriptor(), POLLIN, 0}, {output_.get(), POLLIN, 0}}};
    const int happened = ::poll(watched.data(), watched.size(), static_cast<int>(longest.count()));
    if (happened < 0 && errno != EINTR) {
      throw Error(ExitStatus::failed,
                  fmt::format("listening to the traced Python failed while {}: {}", doing,
                              describe_errno(errno)),
                  "Try again.");
    }
    if (happened > 0 && watched[1].revents != 0) drain_output();
  }

  void drain_output() {
    std::array<char, 1 << 14> buffer;
    for (ssize_t size = 0;
         (size = ::read(output_.get(), buffer.data(), buffer.size())) != -1 || errno == EINTR;) {
      if (size == 0) {
        output_.close();  // poll() ignores a negative descriptor.
        return;
      }
      if (size > 0) printed_.append(buffer.data(), static_cast<std::size_t>(size));
      if (printed_.size() > 2 * kKeptOutput) printed_.erase(0, printed_.size() - kKeptOutput);
    }
  }

  Error ended(const std::string& doing) {
    constexpr std::chrono::seconds kLimit{2};
    const std::optional<int> status = process_.wait_for(kLimit);
    drain_output();
    const std::string how = status ? describe_wait_status(*status) : "it closed the connection";
    if (!heard_) {
      if (const auto processor = foreign_processor(request_.python)) {
        return {ExitStatus::usage,
                fmt::format("{} is for another processor, {}; optrace traces x86-64",
                            request_.python.string(), *processor),
                "Choose a Python built for x86-64 with --python or $OPTRACE_PYTHON."};
      }
      return {ExitStatus::usage,
              fmt::format("{} (from {}) is not a Python: it ended without answering ({})",
                          request_.python.string(), request_.python_reason, how),
              "Choose a Python that has torch with --python or $OPTRACE_PYTHON." +
                  last_lines(printed_)};
    }
    return {ExitStatus::failed, fmt::format("the traced Python died while {} ({})", doing, how),
            "Try --probes int3, and try the same call without optrace." + last_lines(printed_)};
  }

  Error hangs(const std::string& doing) {
    drain_output();
    return {
        ExitStatus::failed,
        fmt::format("the traced Python did not respond for {} s while {}",
                    std::chrono::duration_cast<std::chrono::seconds>(request_.timeout).count(),
                    doing),
        "Wait longer with --timeout SECONDS, or check that the same call ends without optrace." +
            last_lines(printed_)};
  }

  const LaunchRequest& request_;
  ProgramConnection connection_;
  Descriptor output_;
  std::string printed_;
  bool heard_ = false;
  ChildProcess process_;  // The last member, so that the process is killed first.
};

/// Returns where the torch of this Python is. Throws if this Python can't be traced.
TorchProcess torch_of(const LaunchRequest& request, const PythonMessage& python) {
  const std::string path = request.python.string();
  if (!python.version)
    throw Error(ExitStatus::failed, "the traced Python did not send its version", kReport);
  const auto& [major, minor, implementation] = *python.version;
  if (implementation != "cpython" || major != 3 || minor < 9) {
    throw Error(ExitStatus::usage,
                fmt::format("{} (from {}) is {} {}.{}", path, request.python_reason, implementation,
                            major, minor),
                "Choose CPython 3.9 or later with --python or $OPTRACE_PYTHON.");
  }
  if (!python.torch) {
    throw Error(ExitStatus::usage,
                fmt::format("no torch in {} (Python {}.{}, from {})", path, major, minor,
                            request.python_reason),
                fmt::format("Choose a Python that has torch with --python or $OPTRACE_PYTHON, or "
                            "install it: {} -m pip install torch",
                            path));
  }
  return {.torch = *python.torch, .modules = python.modules, .cuda = request.device == "cuda"};
}

}  // namespace

struct OpTracer::State {
  State(const LaunchRequest& asked, const LaunchProgress& told)
      : request(asked), progress(told), target(asked), session(scratch.path(), asked.results) {}

  /// Receives the answer to an order. Without a valid answer, the target can't be used any more.
  TargetMessage receive(const std::string& kind, const std::string& doing,
                        Collector* collector = nullptr) {
    alive = false;
    try {
      TargetMessage message = target.receive(kind, doing, collector);
      alive = true;
      return message;
    } catch (const TargetProblem&) {
      alive = true;
      throw;
    }
  }

  /// Plans while the target imports torch.
  void plan() {
    progress("importing torch, planning probes");
    orders.plan(torch, [this](const std::filesystem::path& folder, bool devices) {
      InterruptGuard::throw_if_interrupted();
      return find_or_build_agents(folder, devices, progress);
    });
    planned = true;
  }

  const DryRun* dry_run() const { return request.dry_run ? &*request.dry_run : nullptr; }

  const LaunchRequest& request;
  const LaunchProgress& progress;
  const PrivateFolder scratch;
  Target target;
  ProbeSession session;
  const RecordingRequest recorded{
      .collector = {.selection = {}, .timeline = true, .single_call = true},
      .tensors = request.tensors,
      .target_bytes = kCallBytes};
  TracingOrders orders{session, request.probes, dry_run()};
  TorchProcess torch;
  bool planned = false;
  bool alive = true;
};

OpTracer::OpTracer(const LaunchRequest& request, const LaunchProgress& progress)
    : state_(std::make_unique<State>(request, progress)) {
  progress("starting Python");
  state_->torch = torch_of(request, python_in(state_->receive(message::kPython, "starting")));
  state_->target.send(line_of(request));
}

OpTracer::~OpTracer() = default;

bool OpTracer::alive() const {
  return state_->alive;
}

std::string OpTracer::finish() {
  state_->alive = false;
  state_->target.send(line_of(order::kFinish));
  return state_->target.finish();
}

std::size_t OpTracer::prepare(const OpCall& call) {
  const std::string prepare = line_of(call);
  const bool on_gpu = state_->request.device == "cuda" &&
                      records_device_activity(state_->request.dry_run.has_value());
  const bool loads_agents = on_gpu && !state_->planned;
  if (!loads_agents) state_->target.send(prepare);
  if (!state_->planned) state_->plan();
  if (loads_agents) {
    RecordOrder load = state_->orders.record(state_->recorded);
    load.order = order::kLoad;
    state_->target.send(line_of(load));
    state_->target.send(prepare);
  }
  if (call.compile) state_->progress("compiling the call");
  const ReadyMessage ready =
      ready_in(state_->receive(message::kReady, "importing torch and making a sample call"));
  if (!ready.call) {
    state_->alive = false;
    throw Error(ExitStatus::failed, "the traced Python did not send the number of its calls",
                kReport);
  }
  for (const std::filesystem::path& library : ready.modules) state_->orders.plan_library(library);
  return *ready.call;
}

Trace OpTracer::trace(std::size_t call) {
  state_->progress("recording");
  const Descriptor region = sealed_region(kRegionBytes);
  RecordOrder record = state_->orders.record(state_->recorded);
  record.call = call;
  state_->orders.clear_plans();
  state_->target.send(line_of(record), {&region, 1});
  constexpr const char* kDoing = "recording the call";
  state_->receive(message::kRecording, kDoing);
  Collector collector(region.get(), state_->session, state_->recorded.collector);
  state_->receive(message::kRecorded, kDoing, &collector);
  InterruptGuard::throw_if_interrupted();
  collector.finish();
  state_->target.send(line_of_describe(call, collector.ops()));
  TraceMeta meta = call_in(state_->receive(message::kMeta, "describing itself"));
  state_->orders.describe(meta);
  state_->progress("looking up the names of addresses");
  Trace trace = collector.take(std::move(meta));
  complete_trace(trace, state_->dry_run());
  return trace;
}

LaunchResult launch(const LaunchRequest& request, const LaunchProgress& progress) {
  OpTracer tracer(request, progress);
  LaunchResult result{.trace = tracer.trace(tracer.prepare(request.call)), .printed = {}};
  result.printed = tracer.finish();
  return result;
}

}  // namespace optrace
