#pragma once

#include "target/agent/recording/region.h"

namespace optrace::agent {

/// Writes a section for every loaded module to the region's arena.
void put_modules(Region& region);

/// Same for the modules loaded since the last call of either function. Returns true if one of them
/// is linked with PyTorch.
bool put_new_modules(Region& region);

/// Returns true if a library is loaded that Inductor generated.
bool has_generated_library();

}  // namespace optrace::agent
