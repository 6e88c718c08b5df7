#pragma once

#include <span>
#include <string>
#include <vector>

#include "src/command_line/command_line.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds `optrace run`. `arguments` are those of the process, beginning with the command's name and
/// its subcommand; they must outlive `app`. Returns the number of arguments that belong to optrace.
/// The others belong to the program, and the command-line parser must not see them. The subcommand
/// ends by throwing CommandEnded with the program's exit status, or another one if nothing was
/// traced.
std::size_t add_run_command(Command& app, std::span<char* const> arguments);

/// Traces the program that `optrace WORDS...` runs, the first word being `run`, without reporting
/// it. Returns the traces of the program's processes that used torch, beginning with the process
/// that was started first. Throws WrongUsage or HelpAsked for other words, Error(failed) for a
/// program that failed or did nothing.
std::vector<Trace> trace_run_command(std::vector<std::string> words);

}  // namespace optrace
