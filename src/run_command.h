#pragma once

#include <span>
#include <string>
#include <vector>

#include <CLI/App.hpp>

#include "tracer/trace/trace.h"

namespace optrace {

/// Adds `optrace run`. `arguments` are the process's, with the command's name first and its
/// subcommand behind; they must outlive `app`. Returns how many of them are optrace's own: what
/// follows belongs to the program that is run, and the command line's parser must not see it. The
/// subcommand ends by throwing CLI::RuntimeError with the program's exit status.
std::size_t add_run_command(CLI::App& app, std::span<char* const> arguments);

/// Traces what `optrace WORDS...` would, the first word being `run`, without reporting it: the
/// program's processes that did anything with torch, the one that was started first. Throws
/// CLI::ParseError for other words, Error(failed) for a program that failed or did nothing.
std::vector<Trace> trace_run_command(std::vector<std::string> words);

}  // namespace optrace
