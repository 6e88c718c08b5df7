#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/App.hpp>

#include "src/options/dry_run_options.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

// What the commands that run a Python program have in common. The program is SCRIPT, -m MODULE or
// -c CODE. It and its own arguments follow the command's options.

/// Returns the number of `arguments` before the program. `arguments` are those of the process,
/// beginning with the name of optrace and that of `command`. The program begins with the first
/// argument that is neither an option of `command` nor an option's value, or with -m or -c.
std::size_t own_arguments(const CLI::App& command, std::span<char* const> arguments);

/// Appends the program and its arguments to `program`. Returns the number of arguments before it,
/// which the parser of the command line may see.
std::size_t take_program(const CLI::App& command, std::span<char* const> arguments,
                         std::vector<std::string>& program);

/// Throws Error(usage) if there is no such program. `command` is how the user runs one: `optrace
/// run`.
void require_program(const std::vector<std::string>& program, std::string_view command);

/// Prepares the dry run that the user asked for. Throws Error(usage) if this Python has no torch.
DryRun dry_run_of(const DryRunOptions& options, const std::filesystem::path& python);

/// Returns the program's exit status: 128 + N if signal N killed it.
int exit_status_of(const ProgramResult& result);

}  // namespace optrace
