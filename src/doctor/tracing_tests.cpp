#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include "platform/files/descriptor.h"
#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "platform/process/running_process.h"
#include "present/readable_numbers.h"
#include "pytorch/installed/wheel_libraries.h"
#include "src/doctor/doctor_checks.h"
#include "tracer/attach/attach.h"
#include "tracer/launch/op_tracer.h"

namespace optrace {
namespace {

constexpr std::string_view kProbes = "probes";
constexpr std::string_view kTracing = "tracing";
constexpr std::string_view kAttach = "attach";

constexpr const char* kOp = "add";
constexpr std::uint64_t kAttachedOps = 5;

// The program of test_attach(). It ends when optrace does. Nothing may be imported from the current
// folder, which comes first with -c; sys is built in.
constexpr const char* kProgram = R"(
import sys
sys.path[:] = [folder for folder in sys.path if folder]
import os, time, torch
tensor = torch.zeros(2)
parent = os.getppid()
os.write(3, b"1")
while os.getppid() == parent:
    tensor.add_(1)
    time.sleep(0.001)
)";
constexpr int kReadyDescriptor = 3;

Error again(const char* what) {
  return {ExitStatus::failed, what, "Run `optrace add` for the details."};
}

DoctorCheck probes_of(const Trace& trace) {
  const std::uint64_t placed = trace.meta.probes.placed.value_or(0);
  const std::uint64_t failed = trace.meta.probes.failed.value_or(0);
  if (placed == 0)
    return failed_check(kProbes, CheckState::missing, again("no probe could be placed"));
  DoctorCheck check{.id = kProbes, .tested = true};
  check.facts = {{"placed", placed}, {"failed", failed}};
  check.found = fmt::format("{} placed and removed", readable_count(placed));
  if (failed == 0) return check;
  check.state = CheckState::limited;
  check.found += fmt::format("; {} could not be placed", failed);
  check.remedy = "The calls of these functions are not shown. Try `--probes int3`.";
  return check;
}

DoctorCheck tracing_of(const Trace& trace) {
  const auto native = std::ranges::count(trace.paths, PathKind::function, &TracePath::kind);
  if (native == 0)
    return failed_check(kTracing, CheckState::missing, again("the trace of an op has no C++ call"));
  DoctorCheck check{.id = kTracing, .tested = true};
  check.facts = {{"op", kOp}, {"native_calls", native}};
  if (!trace.meta.comparison || !trace.meta.comparison->equal) {
    return failed_check(kTracing, CheckState::missing,
                        again("a traced op had another result than an untraced one"));
  }
  check.found = fmt::format(
      "aten::{} was traced: {} calls in C++, and the same result as without probes", kOp, native);
  return check;
}

/// The program, which has called its first op.
class RunningProgram {
 public:
  explicit RunningProgram(const std::filesystem::path& python) : RunningProgram(python, pipe()) {}

  pid_t id() const { return process_.id(); }

 private:
  struct Ends {
    Descriptor ours, theirs;
  };

  static Ends pipe() {
    std::array<int, 2> numbers{};
    if (::pipe2(numbers.data(), O_CLOEXEC) != 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("cannot communicate with a child process: {}", describe_errno(errno)),
                  "Close some files or programs and try again.");
    }
    return {Descriptor(numbers[0]), Descriptor(numbers[1])};
  }

  RunningProgram(const std::filesystem::path& python, Ends ends)
      : nothing_(::open("/dev/null", O_RDWR | O_CLOEXEC)),
        process_({.arguments = {std::filesystem::absolute(python).string(), "-c", kProgram},
                  .environment = {{"PYTHONSAFEPATH", "1"}},
                  .descriptors = {{ends.theirs.get(), kReadyDescriptor},
                                  {nothing_.get(), STDIN_FILENO},
                                  {nothing_.get(), STDOUT_FILENO},
                                  {nothing_.get(), STDERR_FILENO}},
                  .working_folder = "/"}) {
    ends.theirs.close();
    wait_for(ends.ours);
  }

  static void wait_for(const Descriptor& ready) {
    constexpr std::chrono::minutes kTimeout{2};
    const auto end = std::chrono::steady_clock::now() + kTimeout;
    pollfd watched{ready.get(), POLLIN, 0};
    constexpr int kSliceMilliseconds = 100;
    while (::poll(&watched, 1, kSliceMilliseconds) <= 0) {
      InterruptGuard::throw_if_interrupted();
      if (std::chrono::steady_clock::now() > end) throw again("Python took minutes to start");
    }
    char answer = 0;
    if (::read(ready.get(), &answer, 1) != 1) throw again("Python ended while it imported torch");
  }

  Descriptor nothing_;
  ChildProcess process_;
};

/// Returns true if a part of that library in a process is the same as in its file.
bool is_unchanged(const RunningProcess& process, const MappedPart& part) {
  const Descriptor memory = process.open("mem", O_RDONLY | O_CLOEXEC);
  const Descriptor file = process.open_inside(part.path);
  if (!memory || !file) return false;
  constexpr std::size_t kPiece = std::size_t{1} << 16;
  std::vector<char> theirs(kPiece);
  std::vector<char> ours(kPiece);
  for (std::uint64_t at = 0; at < part.end - part.start; at += kPiece) {
    const std::size_t size = std::min(kPiece, part.end - part.start - at);
    const ssize_t in_file =
        ::pread(file.get(), ours.data(), size, static_cast<off_t>(part.offset + at));
    if (in_file <= 0 ||
        ::pread(memory.get(), theirs.data(), static_cast<std::size_t>(in_file),
                static_cast<off_t>(part.start + at)) != in_file ||
        !std::equal(ours.begin(), ours.begin() + in_file, theirs.begin()))
      return false;
  }
  return true;
}

/// Throws Error(failed) unless a library of torch that had probes is as it was before.
void require_unchanged_code(pid_t id) {
  const RunningProcess process(id);
  std::size_t checked = 0;
  for (const MappedPart& part : process.mapped_parts()) {
    if (!part.executable || !part.path.ends_with(kTorchPython)) continue;
    ++checked;
    if (!is_unchanged(process, part)) throw again("probes are left in a process after the attach");
  }
  if (checked == 0) throw again("the code of a process that was attached to can't be read");
}

/// Calls `test`, and turns a failure into a check of this state.
template <typename Test>
DoctorCheck outcome_of(std::string_view id, CheckState state, const Test& test) {
  try {
    return test();
  } catch (const Error& error) {
    if (error.status() == ExitStatus::interrupted) throw;
    DoctorCheck check = failed_check(id, state, error);
    check.tested = true;
    return check;
  }
}

}  // namespace

std::vector<DoctorCheck> test_tracing(const PythonChoice& python, const DoctorProgress& progress) {
  std::vector<DoctorCheck> checks;
  const DoctorCheck tracing = outcome_of(kTracing, CheckState::missing, [&] {
    LaunchRequest request;
    request.python = python.path;
    request.python_reason = python.reason;
    request.call.op = kOp;
    request.call.compare = true;
    const LaunchResult result = launch(request, progress);
    checks.push_back(probes_of(result.trace));
    return tracing_of(result.trace);
  });
  if (checks.empty())
    checks.push_back({.id = kProbes, .state = CheckState::skipped, .found = "not tested"});
  checks.push_back(tracing);
  return checks;
}

DoctorCheck test_attach(const PythonChoice& python, const DoctorProgress& progress) {
  return outcome_of(kAttach, CheckState::limited, [&] {
    progress("starting a Python to attach to");
    const RunningProgram program(python.path);
    progress("attaching to it");
    AttachRequest request;
    request.process = program.id();
    request.collector.selection.count = kAttachedOps;
    constexpr std::chrono::seconds kTimeout{30};
    request.duration = kTimeout;
    std::uint64_t ops = 0;
    attach(request, progress, [&](const AttachProgress& now, bool) { ops = now.counted.ops; });
    if (ops == 0) throw again("no op was recorded in a process that was attached to");
    require_unchanged_code(program.id());
    DoctorCheck check{.id = kAttach, .tested = true};
    check.found = fmt::format(
        "{} of a Python that optrace had started were recorded; its code is as it was before",
        readable_count(ops, "op"));
    return check;
  });
}

}  // namespace optrace
