#include "op_tracer.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "platform/child_process.h"
#include "platform/descriptor.h"
#include "platform/error.h"
#include "platform/installation.h"
#include "platform/interrupt.h"
#include "platform/json_reader.h"
#include "platform/printable_text.h"
#include "platform/private_folder.h"
#include "tracer/calltree/recorded_trace.h"
#include "tracer/elf/processor.h"
#include "tracer/launch/target_description.h"
#include "tracer/probes/probe_session.h"
#include "tracer/runtime_build/activity_agent.h"
#include "tracer/runtime_build/built_for_torch.h"
#include "tracer/runtime_build/cuda_calls_agent.h"
#include "tracer/runtime_build/op_agent.h"
#include "tracer/trace/recording.h"

namespace optrace {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

constexpr int kTargetDescriptor = 3;           // The socket's descriptor number in the target.
constexpr std::size_t kKeptOutput = 64 << 10;  // Bytes of the target's own output.
constexpr std::size_t kMaxSentenceLength = 2000;
constexpr std::size_t kMaxModules = 16;
constexpr const char* kReport =
    "Run the command again; if it stays so, report it with what is printed here.";

std::pair<Descriptor, Descriptor> checked_pair(int result, const std::array<int, 2>& numbers) {
  if (result != 0) {
    throw Error(ExitStatus::failed,
                fmt::format("cannot talk to a child process: {}", describe_errno(errno)),
                "Close some files or programs and try again.");
  }
  return {Descriptor(numbers[0]), Descriptor(numbers[1])};
}

/// Returns the target's text in displayable form: limited, and unable to control a terminal.
std::string shown(std::string_view text, std::size_t limit = kMaxSentenceLength) {
  return printable_lines(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
}

/// Returns the last lines that the target printed, indented, or an empty string.
std::string last_lines(const std::string& text) {
  constexpr std::size_t kLines = 10;
  std::vector<std::string> lines;
  std::size_t start = 0;
  while (start < text.size()) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    if (end > start) lines.push_back(shown(text.substr(start, end - start), 300));
    start = end + 1;
  }
  std::string result;
  for (std::size_t i = lines.size() - std::min(lines.size(), kLines); i < lines.size(); ++i) {
    result += "\n    " + lines[i];
  }
  return result.empty() ? result : "\nThe last that it printed:" + result;
}

std::string string_in(const Json& message, const char* key) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_string()) {
    throw Error(ExitStatus::failed,
                fmt::format("the traced Python's message lacks the text '{}'", key), kReport);
  }
  return found->get<std::string>();
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
  /// doing.
  Json receive(const std::string& kind, const std::string& doing) {
    const Clock::time_point end = Clock::now() + request_.patience;
    while (!messages_.ready()) {
      if (!listen(doing)) throw ended(doing);
      if (Clock::now() >= end && !messages_.ready()) throw hangs(doing);
    }
    Json message = messages_.take();
    const std::string got = string_in(message, "message");
    if (got == "problem") throw problem(message);
    if (got != kind) {
      throw Error(
          ExitStatus::failed,
          fmt::format("the traced Python sent '{}' where '{}' was due", shown(got, 40), kind),
          kReport);
    }
    heard_ = true;
    return message;
  }

  /// If the target has died, the next receive() throws.
  void send(const Json& message) {
    const std::string line = message.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n";
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t sent = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EINTR) return;
      InterruptGuard::throw_if_interrupted();
      rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(sent, 0)));
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
        socket_(std::move(ends.socket)),
        output_(std::move(ends.output)),
        process_({.arguments = {request.python.string(), (data_folder() / "target").string(),
                                std::to_string(kTargetDescriptor)},
                  .environment = request.dry_run ? request.dry_run->environment()
                                                 : decltype(ChildProcess::Options::environment)(),
                  .descriptors = {{ends.their_socket.get(), kTargetDescriptor},
                                  {ends.nothing.get(), STDIN_FILENO},
                                  {ends.their_output.get(), STDOUT_FILENO},
                                  {ends.their_output.get(), STDERR_FILENO}}}) {}

  /// Waits for input. Returns false once the target has closed its end.
  bool listen(const std::string& doing) {
    InterruptGuard::throw_if_interrupted();
    std::array<pollfd, 2> watched{{{socket_.get(), POLLIN, 0}, {output_.get(), POLLIN, 0}}};
    // The maximum delay until a signal that arrives just before poll() is handled.
    constexpr int kSliceMilliseconds = 100;
    const int happened = ::poll(watched.data(), watched.size(), kSliceMilliseconds);
    if (happened < 0 && errno != EINTR) {
      throw Error(ExitStatus::failed,
                  fmt::format("listening to the traced Python failed while {}: {}", doing,
                              describe_errno(errno)),
                  "Try again.");
    }
    if (happened <= 0) return true;
    if (watched[1].revents != 0) drain_output();
    if (watched[0].revents == 0) return true;
    std::array<char, 1 << 16> buffer;
    const ssize_t size = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size > 0) messages_.append({buffer.data(), static_cast<std::size_t>(size)});
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
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
              fmt::format("{} (from {}) is no Python: it ended without answering ({})",
                          request_.python.string(), request_.python_reason, how),
              "Choose a Python that has torch installed with --python or $OPTRACE_PYTHON." +
                  last_lines(printed_)};
    }
    return {ExitStatus::failed, fmt::format("the traced Python died while {} ({})", doing, how),
            "Try --probes int3, and whether the same call works without optrace." +
                last_lines(printed_)};
  }

  Error hangs(const std::string& doing) {
    drain_output();
    return {ExitStatus::failed,
            fmt::format("the traced Python gave no sign of life for {} s while {}",
                        std::chrono::duration_cast<std::chrono::seconds>(request_.patience).count(),
                        doing),
            "Give it longer with --timeout SECONDS, or see whether the same call ends without "
            "optrace." +
                last_lines(printed_)};
  }

  static TargetProblem problem(const Json& message) {
    const auto status = message.find("status");
    const bool usage = status != message.end() && *status == static_cast<int>(ExitStatus::usage);
    return TargetProblem({usage ? ExitStatus::usage : ExitStatus::failed,
                          shown(string_in(message, "what")), shown(string_in(message, "remedy"))});
  }

  const LaunchRequest& request_;
  Descriptor socket_;
  Descriptor output_;
  TargetMessages messages_;
  std::string printed_;
  bool heard_ = false;
  ChildProcess process_;  // The last member, so that the process is killed first.
};

/// Returns the modules to probe. Throws if this Python can't be traced.
std::vector<std::filesystem::path> modules_of(const LaunchRequest& request, const Json& python) {
  const std::string path = request.python.string();
  const auto version = python.find("version");
  if (version == python.end() || !version->is_array() || version->size() != 3 ||
      !std::all_of(version->begin(), version->end(),
                   [](const Json& part) { return part.is_number_unsigned(); })) {
    throw Error(ExitStatus::failed, "the traced Python does not say its version", kReport);
  }
  const auto major = version->at(0).get<std::uint64_t>();
  const auto minor = version->at(1).get<std::uint64_t>();
  const std::string implementation = shown(string_in(python, "implementation"), 40);
  if (implementation != "cpython" || major != 3 || minor < 9) {
    throw Error(ExitStatus::usage,
                fmt::format("{} (from {}) is {} {}.{}", path, request.python_reason, implementation,
                            major, minor),
                "Choose a CPython from 3.9 on with --python or $OPTRACE_PYTHON.");
  }
  const auto torch = python.find("torch");
  if (torch == python.end() || !torch->is_string()) {
    throw Error(ExitStatus::usage,
                fmt::format("no torch in {} (Python {}.{}, from {})", path, major, minor,
                            request.python_reason),
                fmt::format("Choose a Python that has it with --python or $OPTRACE_PYTHON, or "
                            "install it: {} -m pip install torch",
                            path));
  }
  std::vector<std::filesystem::path> modules =
      torch_libraries(torch->get<std::string>(), request.device == "cuda");
  if (request.dry_run) {
    const auto& emulated = request.dry_run->emulation.libraries;
    modules.insert(modules.end(), emulated.begin(), emulated.end());
  }
  const auto others = python.find("modules");
  if (others != python.end() && others->is_array() && others->size() <= kMaxModules) {
    for (const Json& other : *others) {
      if (other.is_string()) modules.emplace_back(other.get<std::string>());
    }
  }
  return modules;
}

Json strings(const std::vector<std::filesystem::path>& paths) {
  Json result = Json::array();
  for (const auto& path : paths) result.push_back(path.string());
  return result;
}

}  // namespace

void TargetMessages::append(std::string_view bytes) {
  if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    if (ready()) end_ -= begin_;
    begin_ = 0;
  }
  const std::size_t searched = bytes_.size();
  bytes_.append(bytes);
  if (!ready()) end_ = bytes_.find('\n', searched);
  if (!ready() && bytes_.size() - begin_ > kMaxLineLength) {
    throw Error(ExitStatus::failed, "the traced Python sent a message without end", kReport);
  }
}

Json TargetMessages::take() {
  const std::string line = bytes_.substr(begin_, end_ - begin_);
  begin_ = end_ + 1;
  end_ = bytes_.find('\n', begin_);
  Json message = read_json(line);
  if (!message.is_object() || !message.contains("message") || !message["message"].is_string()) {
    throw Error(ExitStatus::failed,
                fmt::format("the traced Python sent what is no message: '{}'", shown(line, 60)),
                kReport);
  }
  return message;
}

struct OpTracer::State {
  State(const LaunchRequest& asked, const LaunchProgress& told)
      : request(asked), progress(told), target(asked), session(scratch.path()) {}

  /// Receives the answer to an order. Without a valid answer, the target can't be used any more.
  Json receive(const std::string& kind, const std::string& doing) {
    alive = false;
    try {
      Json message = target.receive(kind, doing);
      alive = true;
      return message;
    } catch (const TargetProblem&) {
      alive = true;
      throw;
    }
  }

  const LaunchRequest& request;
  const LaunchProgress& progress;
  const PrivateFolder scratch;
  Target target;
  ProbeSession session;
  std::vector<std::filesystem::path> modules;
  std::vector<std::filesystem::path> plans;  ///< To place for the next recording.
  bool planned = false;
  std::filesystem::path torch_folder;
  OpAgent op_agent;
  ActivityAgent activity_agent;
  CudaCallsAgent cuda_calls_agent;
  bool alive = true;
  unsigned recordings = 0;
};

OpTracer::OpTracer(const LaunchRequest& request, const LaunchProgress& progress)
    : state_(std::make_unique<State>(request, progress)) {
  progress("starting Python");
  const Json python = state_->receive("python", "starting");
  state_->modules = modules_of(request, python);
  state_->torch_folder = string_in(python, "torch");
  state_->target.send({{"device", request.device},
                       {"use_jumps", request.probes == ProbeMode::jump},
                       {"agent", (library_folder() / "liboptrace_agent.so").string()},
                       {"samples", (data_folder() / "samples").string()}});
}

OpTracer::~OpTracer() = default;

bool OpTracer::alive() const {
  return state_->alive;
}

std::string OpTracer::finish() {
  state_->alive = false;
  state_->target.send({{"order", "finish"}});
  return state_->target.finish();
}

std::size_t OpTracer::prepare(const OpCall& call) {
  const auto name = [](const std::string& tensor) {
    return tensor.empty() ? Json() : Json(tensor);
  };
  Json shapes = Json::array();
  for (const TensorShape& shape : call.shapes) {
    shapes.push_back(Json::array({name(shape.tensor), shape.sizes}));
  }
  Json dtypes = Json::array();
  for (const TensorType& type : call.dtypes) {
    dtypes.push_back(Json::array({name(type.tensor), type.dtype}));
  }
  state_->target.send({{"order", "prepare"},
                       {"op", call.op},
                       {"backward", call.backward},
                       {"requires_grad", call.requires_grad},
                       {"shapes", std::move(shapes)},
                       {"dtypes", std::move(dtypes)},
                       {"input", call.input ? Json(*call.input) : Json()},
                       {"compare", call.compare}});
  if (!state_->planned) {
    // The target imports torch meanwhile.
    state_->progress("importing torch, planning probes");
    state_->plans = state_->session.initial_plans(state_->modules);
    state_->planned = true;
    InterruptGuard::throw_if_interrupted();
    state_->op_agent = find_or_build_op_agent(state_->torch_folder, state_->progress);
    if (state_->request.device == "cuda" &&
        records_device_activity(state_->request.dry_run.has_value())) {
      state_->activity_agent = find_or_build_activity_agent(state_->torch_folder, state_->progress);
      state_->cuda_calls_agent =
          find_or_build_cuda_calls_agent(state_->torch_folder, state_->progress);
    }
  }
  const Json ready = state_->receive("ready", "importing torch and making a sample call");
  const auto number = ready.find("call");
  if (number == ready.end() || !number->is_number_unsigned()) {
    state_->alive = false;
    throw Error(ExitStatus::failed, "the traced Python does not number its calls", kReport);
  }
  return number->get<std::size_t>();
}

Trace OpTracer::trace(std::size_t call) {
  state_->progress("recording");
  const std::filesystem::path recording =
      state_->scratch.path() / fmt::format("recording-{}", ++state_->recordings);
  state_->target.send({{"order", "record"},
                       {"call", call},
                       {"plans", strings(std::exchange(state_->plans, {}))},
                       {"op_agent", state_->op_agent.library.string()},
                       {"activity_agent", state_->activity_agent.library.string()},
                       {"cuda_calls_agent", state_->cuda_calls_agent.library.string()},
                       {"recording", recording.string()}});
  state_->receive("recorded", "recording the call");
  InterruptGuard::throw_if_interrupted();
  state_->target.send({{"order", "describe"},
                       {"call", call},
                       {"ops", recorded_ops(Recording(recording).op_records())}});
  Json described = state_->receive("meta", "describing itself");
  Json meta = checked_meta(std::move(described["meta"]));
  for (const std::string& missing :
       {state_->op_agent.missing, state_->activity_agent.missing, state_->cuda_calls_agent.missing})
    if (!missing.empty()) meta["warnings"].push_back(missing);
  if (const std::string warning =
          not_kept_warning(state_->op_agent.folder, state_->op_agent.not_kept);
      !warning.empty())
    meta["warnings"].push_back(warning);
  meta["probes"] = {{"mode", state_->request.probes == ProbeMode::jump ? "jump" : "int3"}};
  state_->progress("putting names to addresses");
  Trace trace = read_recorded_trace(state_->session, recording, std::move(meta));
  std::error_code ignored;
  std::filesystem::remove(recording, ignored);
  keep_names_that_occur(trace);
  if (const auto& dry_run = state_->request.dry_run) describe_dry_run(*dry_run, trace);
  add_activity_warnings(trace);
  return trace;
}

LaunchResult launch(const LaunchRequest& request, const LaunchProgress& progress) {
  OpTracer tracer(request, progress);
  LaunchResult result{.trace = tracer.trace(tracer.prepare(request.call)), .printed = {}};
  result.printed = tracer.finish();
  return result;
}

}  // namespace optrace
