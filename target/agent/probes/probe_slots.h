#pragma once

#include <cstdint>

#include "target/agent/probes/plan_reader.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"

namespace optrace::agent {

/// State of one probe of a plan.
enum class ProbeState : std::uint8_t {
  unplaced = 0,  ///< Not placed yet, or removed.
  trap,          ///< Placed as int3.
  jump,          ///< Placed as a jump.
  bytes_differ,
  no_room,
  outside_text,
  overlapping,
  left_behind,  ///< Could not be removed, because other code had patched over it.
};

/// Location of a probe's recording code and displaced instructions.
struct Slot {
  std::uint32_t offset = 0;  ///< Offset in the slab; 0: none.
  ProbeState state = ProbeState::unplaced;
};

/// The slots of one plan in one module: one mapping, written once, then readable and executable.
struct Slab {
  std::uint8_t* memory = nullptr;
  std::uint64_t size = 0;               ///< In bytes.
  PageArray<Slot> slots;                ///< One per probe of the plan.
  PageArray<std::uint32_t> by_address;  ///< Probe indexes, sorted by address.

  std::uint64_t address(std::uint32_t probe) const {
    return reinterpret_cast<std::uint64_t>(memory) + slots[probe].offset;
  }
  void release();
};

/// Writes a slot for every probe of the plan. If no memory within 32-bit reach of the module is
/// free, only the probes that don't need it get a slot; the others become no_room. `first_id` is
/// the id that the first probe records. Returns 0, -ENOMEM, or -EACCES if the system refuses
/// executable memory.
int write_slots(const PlanView& plan, const LoadedModule& module, std::uint32_t first_id,
                Slab& slab);

}  // namespace optrace::agent
