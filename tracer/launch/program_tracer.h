#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "gpu/build/dry_run.h"
#include "tracer/collect/collector.h"
#include "tracer/connection/tracing_orders.h"
#include "tracer/probes/probe_mode.h"
#include "tracer/probes/return_sites.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// The steps of a program to trace. A step ends where the program's optimizer has stepped, or where
/// the program calls optrace.step(); the next step then begins.
struct StepWindow {
  std::uint64_t first = 1;  ///< The first step has number 1.
  std::uint64_t count = 0;  ///< 0: all.
};

/// A whole program to run under the tracer. What is recorded is the same for each process.
struct ProgramRequest : RecordingRequest {
  std::filesystem::path python;
  /// Python's arguments: SCRIPT, or -m MODULE, or -c CODE, and the rest.
  std::vector<std::string> arguments;
  bool children = false;  ///< Also trace the processes that it starts.
  /// Places no probes: the traces have only what torch.compile compiled.
  bool only_compilations = false;
  bool output_to_error = false;  ///< The program's standard output is our standard error.
  ProbeMode probes = ProbeMode::jump;
  KnownResults results;  ///< The functions whose returned values are recorded.
  /// Each process records these of its steps, and has no probes before and afterwards.
  std::optional<StepWindow> window;
  std::optional<DryRun> dry_run;  ///< The program sees an emulated GPU.
};

/// The result for one process that imported torch.
struct TracedProcess {
  pid_t id = 0;
  /// True for the process that was started, false for its children.
  bool is_main = false;
  std::optional<std::uint64_t> rank;  ///< $RANK, as torchrun sets it.
  CollectorProgress counted;          ///< The final counts.
  /// Empty if the process could not be traced; `problem` has the reason.
  std::optional<Trace> trace;
  std::string problem, remedy;
};

/// A process that imported torch and ended before the window.
struct UnreachedWindow {
  bool is_main = false;
  std::optional<std::uint64_t> steps;  ///< The steps that it completed; nullopt if unknown.
};

struct ProgramResult {
  int wait_status = 0;        ///< The program's, from waitpid.
  int end_request = 0;        ///< The signal that asked this command to end, if any.
  bool had_children = false;  ///< True if it waited for processes that it had started.
  /// One of those below it, waited for or not, did. Not known of a request for `children`.
  bool children_used_torch = false;
  std::vector<TracedProcess> processes;  ///< The main one first, then by rank and id.
  std::vector<UnreachedWindow> unreached;
};

/// Progress while the program runs, for all processes together.
struct ProgramProgress {
  std::size_t processes = 0;
  CollectorProgress counted;
  std::string step;  ///< A sentence on what the program waits for; empty if it does not wait.
};

/// Runs the program with our standard streams and in our process group, as if it had been started
/// in our place: it receives the signals that are sent to us (SignalForwarder) and ignores those
/// that we ignore. Tracing begins once the program has imported torch, or with the window. Calls
/// `progress` once a second. If tracing fails, the program continues, and TracedProcess::problem
/// has the reason.
///
/// What has to be compiled for the torch that this Python finds is compiled before the program
/// starts, so that none of the program's own time limits passes meanwhile. A process that imports
/// another torch waits at the end of that import for as long as it takes. A signal that asks us to
/// end, and the end of the program, end the compilers.
///
/// Throws Error(usage or failed) if the program can't be started, and Error(interrupted) after a
/// signal before that.
ProgramResult run_program(const ProgramRequest& request,
                          const std::function<void(const ProgramProgress&)>& progress);

}  // namespace optrace
