#pragma once

#include <cstddef>
#include <span>

#include <CLI/App.hpp>

namespace optrace {

/// Adds `optrace explain OP`, which shows the facts about an op in the source, and `optrace explain
/// --compiled PROGRAM`. `arguments` and the result are as those of add_run_command().
std::size_t add_explain_command(CLI::App& app, std::span<char* const> arguments);

}  // namespace optrace
