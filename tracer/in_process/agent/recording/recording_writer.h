#pragma once

#include "tracer/in_process/agent/recording/region.h"

namespace optrace::agent {

/// Writes what the agent's own region holds of the last recording, which is over, as a raw
/// recording. 0, -ENOMEM, or -errno of the write that failed.
int write_recording(int file, const recording::Header& header, Region& region);

/// Puts a section for every loaded module into the region's arena.
void put_modules(Region& region);

/// The same for those that were loaded since the last call of either. True if one of them is linked
/// with torch.
bool put_new_modules(Region& region);

}  // namespace optrace::agent
