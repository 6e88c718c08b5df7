#pragma once

#include "src/command_line/command_line.h"

namespace optrace {

/// Adds `optrace source compare`, which shows how the ops of two versions differ, to `optrace
/// source`.
void add_source_compare(Command& source);

}  // namespace optrace
