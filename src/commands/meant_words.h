#pragma once

#include <string>

#include "src/command_line/command_line.h"

namespace optrace {

/// Returns the command that a misspelt word was probably meant to be; empty if none is similar.
std::string command_meant(const std::string& word);

/// Returns a sentence about the first option that was not expected: the commands that have it, or a
/// similar option; empty if there is none.
std::string option_meant(const WrongUsage& wrong);

}  // namespace optrace
