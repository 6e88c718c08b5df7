#pragma once

#include <cstddef>
#include <span>

#include "src/command_line/command_line.h"

namespace optrace {

/// Adds `optrace explain OP`, which shows the facts about an op in the source, and `optrace explain
/// --compiled PROGRAM`. `arguments` and the result are as those of add_run_command().
std::size_t add_explain_command(Command& app, std::span<char* const> arguments);

}  // namespace optrace
