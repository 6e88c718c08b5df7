#pragma once

#include "target/agent/recording/region.h"

namespace optrace::agent {

/// Writes to the region what its reader needs before the first event, and begins a round.
void begin_recording(Region& region);

/// Ends the round, and writes to the region when it ended and which modules it met.
void end_recording(Region& region);

}  // namespace optrace::agent
