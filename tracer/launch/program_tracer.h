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

#include "tracer/calltree/collector.h"
#include "tracer/launch/op_tracer.h"
#include "tracer/launch/tracing_orders.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// A whole program to run under the tracer.
struct ProgramRequest {
  std::filesystem::path python;
  std::vector<std::string>
      arguments;          ///< Python's: SCRIPT, or -m MODULE, or -c CODE, and the rest.
  bool children = false;  ///< Trace the processes that it starts too.
  ProbeMode probes = ProbeMode::jump;
  std::optional<DryRun> dry_run;              ///< The program sees an emulated GPU.
  CollectorOptions collector;                 ///< For each process.
  std::uint64_t target_bytes = kTargetBytes;  ///< What tracing may take in each process.
};

/// What became of one process that imported torch.
struct TracedProcess {
  pid_t id = 0;
  bool is_main = false;               ///< The one that was started, not a child of it.
  std::optional<std::uint64_t> rank;  ///< $RANK, as torchrun sets it.
  CollectorProgress counted;          ///< In the end.
  std::optional<Trace> trace;         ///< Nothing if it could not be traced: `problem` says why.
  std::string problem, remedy;
};

struct ProgramResult {
  int wait_status = 0;                   ///< The program's, as waitpid gives it.
  bool had_children = false;             ///< It waited for processes that it had started.
  std::vector<TracedProcess> processes;  ///< The main one first, then by rank and number.
};

/// $RANK's value as a number; nothing for what is none.
std::optional<std::uint64_t> rank_number(std::string_view text);

/// What is known while the program runs, of all processes together.
struct ProgramProgress {
  std::size_t processes = 0;
  CollectorProgress counted;
};

/// Runs the program with our standard streams, in our process group, as if it had been started in
/// our place: signals that are sent to us reach it (SignalForwarder), what we ignore it ignores.
/// It is traced from the moment when it has imported torch. `progress` is called once a second.
/// Whatever goes wrong with the tracing, the program runs on; TracedProcess::problem says so.
/// Throws Error(usage or failed) only for what keeps the program from being started.
ProgramResult run_program(const ProgramRequest& request,
                          const std::function<void(const ProgramProgress&)>& progress);

}  // namespace optrace
