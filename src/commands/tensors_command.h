#pragma once

#include <cstddef>
#include <span>

#include <CLI/App.hpp>

namespace optrace {

/// `optrace tensors SCRIPT`: runs a program and shows where its tensors are. Takes the program from
/// `arguments`, those of the process, and returns the number of arguments before it.
std::size_t add_tensors_command(CLI::App& app, std::span<char* const> arguments);

}  // namespace optrace
