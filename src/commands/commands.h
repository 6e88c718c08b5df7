#pragma once

#include "src/command_line/command_row.h"

namespace optrace {

/// Returns the table of all commands of optrace, in the order of the help.
const CommandRow& optrace_command();

}  // namespace optrace
