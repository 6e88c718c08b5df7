#pragma once

#include <cstddef>
#include <span>

#include "src/command_line/command_line.h"

namespace optrace {

/// `optrace tensors SCRIPT`: runs a program and shows where its tensors are. Takes the program from
/// `arguments`, those of the process, and returns the number of arguments before it.
std::size_t add_tensors_command(Command& app, std::span<char* const> arguments);

}  // namespace optrace
