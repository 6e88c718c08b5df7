#pragma once

#include <cstdint>

#include "tracer/in_process/agent/probes/plan_reader.h"
#include "tracer/in_process/agent/probes/probe_slots.h"
#include "tracer/in_process/agent/process/modules.h"

namespace optrace::agent {

/// Whether probes become jumps where the plan allows it.
enum class Jumps : std::uint8_t {
  none = 0,
  at_once = 1,    ///< No other thread is between the first instructions that a jump replaces.
  when_safe = 2,  ///< Only if that turns out: once the int3s are there, no thread gets to these any
                  ///< more, and one that has been in a system call since is not at them.
};

/// Writes the module's entries so that they lead to the slots, wherever the entry holds what the
/// plan says, and notes in each slot's state what came of it. A thread that is at an entry's first
/// byte finds either the old instruction or a whole new one.
/// 0, or -errno when the text can't be made writable: then nothing was written.
int place_probes(const PlanView& plan, const LoadedModule& module, Jumps jumps, Slab& slab);

/// Puts the original bytes back; a probe whose bytes are not ours any more becomes left_behind.
int remove_probes(const PlanView& plan, const LoadedModule& module, Slab& slab);

}  // namespace optrace::agent
