#pragma once

#include <cstdint>

#include "target/agent/probes/plan_reader.h"
#include "target/agent/probes/probe_slots.h"
#include "target/agent/process/modules.h"

namespace optrace::agent {

/// When probes become jumps, if the plan allows it.
enum class Jumps : std::uint8_t {
  none = 0,
  /// At once: no other thread is between the first instructions that a jump replaces.
  at_once = 1,
  /// Once every other thread has been seen in a system call after the int3s were placed. No thread
  /// can then be between the instructions that a jump replaces.
  when_safe = 2,
};

/// Patches the module's entries to lead to the slots, where the entry matches the plan, and stores
/// the outcome in each slot's state. A thread at an entry's first byte executes either the old
/// instruction or a complete new one. Returns 0, or -errno if the text can't be written.
int place_probes(const PlanView& plan, const LoadedModule& module, Jumps jumps, Slab& slab);

/// Restores the original bytes. A probe whose bytes were changed by other code becomes left_behind.
int remove_probes(const PlanView& plan, const LoadedModule& module, Slab& slab);

}  // namespace optrace::agent
