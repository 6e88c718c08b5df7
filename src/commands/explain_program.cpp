#include "src/commands/explain_program.h"

#include <csignal>
#include <cstdint>
#include <optional>
#include <utility>

#include <CLI/App.hpp>
#include <fmt/format.h>
#include <sys/wait.h>

#include "platform/child_process.h"
#include "platform/error.h"
#include "report/explain/compiled_output.h"
#include "report/merge/merge.h"
#include "src/choices/python_choice.h"
#include "src/commands/program_to_run.h"
#include "src/terminal/command_output.h"
#include "src/terminal/standard_output.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {
namespace {

constexpr const char* kOtherProcesses =
    "It started other processes, which are not watched. Give the program that they run.";

// Returns the trace of the process that was started; its other processes are not watched.
Trace trace_of(ProgramResult& result) {
  const bool failed = exit_status_of(result) != 0;
  const std::string failure =
      fmt::format("the program failed ({})", describe_wait_status(result.wait_status));
  for (TracedProcess& process : result.processes) {
    if (process.trace) return std::move(*process.trace);
    throw Error(ExitStatus::failed,
                fmt::format("{}what torch.compile did is unknown: {}",
                            failed ? failure + ", and " : "", process.problem),
                process.remedy);
  }
  if (failed) {
    throw Error(ExitStatus::failed, failure + " before it imported torch",
                "Its own messages give the reason.");
  }
  throw Error(ExitStatus::failed,
              "the program never imported torch, so torch.compile compiled nothing",
              result.had_children ? kOtherProcesses : "Give a program that uses torch.compile.");
}

ExitStatus status_after(const ProgramResult& result) {
  const int status = result.wait_status;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) return ExitStatus::interrupted;
  return exit_status_of(result) == 0 ? ExitStatus::done : ExitStatus::failed;
}

}  // namespace

void explain_program(const ProgramExplanation& options) {
  require_program(options.program, "optrace explain --compiled");
  ProgramRequest request;
  request.arguments = options.program;
  request.only_compilations = true;
  request.output_to_error = true;
  request.python = choose_python(options.python).path;
  CommandOutput output(options.file);
  if (options.dry_run.asked_for()) request.dry_run = dry_run_of(options.dry_run, request.python);
  ProgramResult result = run_program(request, [](const ProgramProgress&) {});
  Trace trace = trace_of(result);
  if (const int status = exit_status_of(result); status != 0)
    trace.meta["exit_status"] = static_cast<std::uint64_t>(status);
  const Report report = merge(trace, nullptr, {});
  if (result.had_children && !report.compilations.is_array())
    write_message("the program's own process compiled nothing", kOtherProcesses);
  const OutputTarget target = options.file.empty() ? standard_output() : OutputTarget{};
  output.write_whole(options.as_json ? compiled_json(report)
                                     : compiled_text(report, style_for(options.terminal, target)));
  output.commit();
  if (const ExitStatus status = status_after(result); status != ExitStatus::done)
    throw CLI::RuntimeError(static_cast<int>(status));
}

}  // namespace optrace
