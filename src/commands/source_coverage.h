#pragma once

#include "src/command_line/command_line.h"

namespace optrace {

/// Adds `optrace source coverage`, which reports how complete an index is, to `optrace source`.
void add_source_coverage(Command& source);

}  // namespace optrace
