#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/error.h"
#include "src/options/dry_run_options.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

// What the commands that run a Python program have in common. The program is SCRIPT, -m MODULE or
// -c CODE. It and its own arguments follow the command's options.

/// Throws Error(usage) if there is no such program. `command` is how the user runs one: `optrace
/// run`.
void require_program(const std::vector<std::string>& program, std::string_view command);

/// Prepares the dry run that the user asked for. Throws Error(usage) if this Python has no torch.
DryRun dry_run_of(const DryRunOptions& options, const std::filesystem::path& python);

/// Runs the program as run_program() does, with a progress line on the terminal.
ProgramResult run_with_progress(const ProgramRequest& request);

/// Returns the program's exit status: 128 + N if signal N killed it.
int exit_status_of(const ProgramResult& result);

// What the commands that answer a question about one run of a program have in common.

/// A program that is run for an answer.
struct ExaminedProgram {
  std::vector<std::string> arguments;  ///< As in ProgramRequest::arguments.
  DryRunOptions dry_run;
  std::string python;  ///< The value of --python.
};

/// The remedy if the program itself did nothing of interest, but had children.
inline constexpr const char* kOtherProcesses =
    "It started other processes, which are not watched. Give the program that they run.";

/// Runs the program, as `request` wants it traced. Its standard output goes to standard error.
/// Throws Error(usage) for a program that can't be run; `command` is as for require_program().
ProgramResult examine_program(const ExaminedProgram& program, ProgramRequest request,
                              std::string_view command);

/// What a command says if the program has no trace.
struct MissingTrace {
  std::string unknown;  ///< What can't be told: "what torch.compile did".
  std::string without;  ///< What a program without torch lacks: "so it has no tensors".
  std::string remedy;   ///< The program to give instead.
};

/// Returns the trace of the process that was started; its other processes are not examined. Throws
/// Error with status_after(), or Error(failed) if the program succeeded without a trace.
Trace examined_trace(ProgramResult& result, const MissingTrace& missing);

/// Returns the exit status of a command that has answered: `interrupted` if Ctrl-C ended the
/// program, `failed` if the program failed.
ExitStatus status_after(const ProgramResult& result);

}  // namespace optrace
