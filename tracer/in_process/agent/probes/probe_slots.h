#pragma once

#include <cstdint>

#include "tracer/in_process/agent/probes/plan_reader.h"
#include "tracer/in_process/agent/process/modules.h"
#include "tracer/in_process/agent/process/pages.h"

namespace optrace::agent {

/// What happened to one probe of a plan.
enum class ProbeState : std::uint8_t {
  unplaced = 0,  ///< Not yet, or taken out.
  trap,          ///< Placed as int3.
  jump,          ///< Placed as a jump.
  bytes_differ,
  no_room,
  outside_text,
  overlapping,
  left_behind,  ///< Could not be taken out: somebody else patched over it.
};

/// Where a probe's recording code and displaced instructions lie: `offset` into the slab.
struct Slot {
  std::uint32_t offset = 0;  ///< 0: it has none.
  ProbeState state = ProbeState::unplaced;
};

/// The slots of one plan in one module: one mapping, written once, then readable and executable.
struct Slab {
  std::uint8_t* memory = nullptr;
  std::uint64_t size = 0;               ///< In bytes.
  PageArray<Slot> slots;                ///< As many as the plan has probes.
  PageArray<std::uint32_t> by_address;  ///< Indexes of the probes, lowest address first.

  std::uint64_t address(std::uint32_t probe) const {
    return reinterpret_cast<std::uint64_t>(memory) + slots[probe].offset;
  }
  void release();
};

/// Writes a slot for every probe of the plan, in reach of the module where there is room; elsewhere
/// only for the probes that need no reach, and the others become no_room. `first_id` is what the
/// first probe records. 0, -ENOMEM, or -EACCES when the system refuses executable memory.
int write_slots(const PlanView& plan, const LoadedModule& module, std::uint32_t first_id,
                Slab& slab);

}  // namespace optrace::agent
