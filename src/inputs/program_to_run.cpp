#include "src/inputs/program_to_run.h"

#include <algorithm>
#include <csignal>
#include <system_error>
#include <utility>

#include <fmt/core.h>
#include <sys/wait.h>

#include "platform/process/child_process.h"
#include "platform/process/interrupt.h"
#include "present/progress_display.h"
#include "src/inputs/python_choice.h"

namespace optrace {

void require_program(const std::vector<std::string>& program, std::string_view command) {
  if (program.empty() || program[0].empty()) {
    throw Error(
        ExitStatus::usage, "no program given",
        fmt::format("Give a script, or -m and a module, or -c and code: {} train.py", command));
  }
  if ((program[0] == "-m" || program[0] == "-c") && program.size() == 1) {
    throw Error(ExitStatus::usage,
                fmt::format("{} needs {}", program[0], program[0] == "-m" ? "a module" : "code"),
                program[0] == "-m" ? fmt::format("Give a module: {} -m package.module", command)
                                   : fmt::format("Give code: {} -c 'import torch; ...'", command));
  }
  std::error_code ignored;
  if (program[0][0] != '-' && !std::filesystem::exists(program[0], ignored)) {
    throw Error(
        ExitStatus::usage, fmt::format("no such file: {}", program[0]),
        fmt::format("Give the path of a Python program; for a module, use {} -m MODULE.", command));
  }
}

DryRun dry_run_of(const DryRunOptions& options, const std::filesystem::path& python) {
  const InterruptGuard guard;
  ProgressDisplay display;
  auto dry_run = prepare_dry_run(python, options.emulated_devices(),
                                 [&display](std::string_view step) { display.show_step(step); });
  if (!dry_run) {
    throw Error(ExitStatus::usage,
                fmt::format("{} has no torch, so a dry run is not possible", python.string()),
                "Choose a Python that has torch with --python or $OPTRACE_PYTHON.");
  }
  return std::move(*dry_run);
}

namespace {

void show(const ProgramProgress& progress, ProgressDisplay& display) {
  if (!progress.step.empty()) {
    display.show_below_output(fmt::format("optrace: {} ...", progress.step));
    return;
  }
  if (progress.processes == 0) return;
  display.show_below_output(fmt::format(
      "optrace: {} events, {} paths{}{}", progress.counted.events, progress.counted.paths,
      progress.processes > 1 ? fmt::format(", {} processes", progress.processes) : "",
      progress.counted.lost > 0 ? fmt::format(", {} lost", progress.counted.lost) : ""));
}

}  // namespace

ProgramResult run_with_progress(const ProgramRequest& request) {
  ProgressDisplay display;
  return run_program(request,
                     [&display](const ProgramProgress& progress) { show(progress, display); });
}

int exit_status_of(const ProgramResult& result) {
  return WIFSIGNALED(result.wait_status) ? kSignalled + WTERMSIG(result.wait_status)
                                         : WEXITSTATUS(result.wait_status);
}

ProgramResult examine_program(const ExaminedProgram& program, ProgramRequest request,
                              std::string_view command) {
  require_program(program.arguments, command);
  request.arguments = program.arguments;
  request.output_to_error = true;
  request.python = choose_python(program.python).path;
  if (program.dry_run.asked_for()) request.dry_run = dry_run_of(program.dry_run, request.python);
  return run_with_progress(request);
}

Trace examined_trace(ProgramResult& result, const MissingTrace& missing) {
  const auto found = std::ranges::find(result.processes, true, &TracedProcess::is_main);
  TracedProcess* const own = found == result.processes.end() ? nullptr : &*found;
  if (own != nullptr && own->trace) return std::move(*own->trace);
  const ExitStatus status = status_after(result);
  const bool failed = status != ExitStatus::done;
  const std::string failure =
      fmt::format("the program failed ({})", describe_wait_status(result.wait_status));
  if (own != nullptr) {
    throw Error(failed ? status : ExitStatus::failed,
                fmt::format("{}{} is unknown: {}", failed ? failure + ", and " : "",
                            missing.unknown, own->problem),
                own->remedy);
  }
  if (failed)
    throw Error(status, failure + " before it imported torch", "Its own messages give the reason.");
  throw Error(ExitStatus::failed,
              fmt::format("the program never imported torch, {}", missing.without),
              result.had_children ? kOtherProcesses : missing.remedy);
}

ExitStatus status_after(const ProgramResult& result) {
  const int status = result.wait_status;
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) return ExitStatus::interrupted;
  return exit_status_of(result) == 0 ? ExitStatus::done : ExitStatus::failed;
}

}  // namespace optrace
