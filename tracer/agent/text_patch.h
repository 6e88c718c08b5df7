#pragma once

#include <cstdint>

#include "tracer/agent/modules.h"
#include "tracer/agent/plan_reader.h"
#include "tracer/agent/probe_slots.h"

namespace optrace::agent {

/// Writes the module's entries so that they lead to the slots, wherever the entry holds what the
/// plan says, and notes in each slot's state what came of it. Safe while other threads run in so
/// far as a thread that is at an entry's first byte finds either the old instruction or a whole
/// new one; one that is between the first instructions that a jump replaces is not safe.
/// 0, or -errno when the text can't be made writable: then nothing was written.
int place_probes(const PlanView& plan, const LoadedModule& module, bool use_jumps, Slab& slab);

/// Puts the original bytes back; a probe whose bytes are not ours any more becomes left_behind.
int remove_probes(const PlanView& plan, const LoadedModule& module, Slab& slab);

}  // namespace optrace::agent
