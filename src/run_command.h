#pragma once

#include <span>

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace run`. `arguments` are the process's, with the command's name first and its
/// subcommand behind; they must outlive `app`. Returns how many of them are optrace's own: what
/// follows belongs to the program that is run, and the command line's parser must not see it. The
/// subcommand ends by throwing CLI::RuntimeError with the program's exit status.
std::size_t add_run_command(CLI::App& app, std::span<char* const> arguments);

}  // namespace optrace
