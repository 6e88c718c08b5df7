#include "target/agent/probes/text_patch.h"

#include <climits>
#include <cstring>

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "target/agent/probes/text_writer.h"
#include "target/agent/process/threads.h"

namespace optrace::agent {
namespace {

constexpr std::uint8_t kTrap = 0xcc;
constexpr std::uint8_t kJump = 0xe9;
constexpr std::uint32_t kJumpSize = 5;

// Makes all cores discard instructions that they have already fetched. If the kernel lacks this
// call (before 4.16), the copy of a page that the first write to it makes has the same effect.
void make_cores_refetch() {
  static bool registered = false;
  if (!registered) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
    registered = true;
  }
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

volatile std::uint8_t* entry_of(const plan::Probe& probe, const LoadedModule& module) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return reinterpret_cast<volatile std::uint8_t*>(probe.address + module.bias);
}

bool holds(const volatile std::uint8_t* at, const std::uint8_t* bytes, std::uint32_t size) {
  for (std::uint32_t i = 0; i < size; ++i)
    if (at[i] != bytes[i]) return false;
  return true;
}

std::int64_t jump_distance(const Slab& slab, std::uint32_t probe, const volatile std::uint8_t* at) {
  return static_cast<std::int64_t>(slab.address(probe) -
                                   (reinterpret_cast<std::uint64_t>(at) + kJumpSize));
}

// Returns the state that the probe at index `place` in address order can get. Its slot must be
// ready.
ProbeState judge(const PlanView& plan, std::uint32_t place, const LoadedModule& module,
                 bool use_jumps, const Slab& slab) {
  const std::uint32_t index = slab.by_address[place];
  const plan::Probe& probe = plan.probes[index];
  const std::uint64_t entry = probe.address + module.bias;
  if (module.text_around(entry, probe.original_size) == nullptr) return ProbeState::outside_text;
  const bool jump = use_jumps && probe.patch == plan::Patch::jump;
  if (jump && place + 1 < plan.header->probe_count &&
      plan.probes[slab.by_address[place + 1]].address - probe.address < kJumpSize) {
    return ProbeState::overlapping;
  }
  if (!holds(entry_of(probe, module), probe.original, probe.original_size))
    return ProbeState::bytes_differ;
  if (!jump) return ProbeState::trap;
  const std::int64_t distance = jump_distance(slab, index, entry_of(probe, module));
  // A trap can use a slot that a jump does not reach.
  return distance >= INT32_MIN && distance <= INT32_MAX ? ProbeState::jump : ProbeState::trap;
}

// Calls `visit` with the index and the entry of each probe that is a jump, in address order.
template <typename Visit>
void for_each_jump(const PlanView& plan, const LoadedModule& module, const Slab& slab,
                   const Visit& visit) {
  for (std::uint32_t place = 0; place < plan.header->probe_count; ++place) {
    const std::uint32_t i = slab.by_address[place];
    if (slab.slots[i].state == ProbeState::jump) visit(i, entry_of(plan.probes[i], module));
  }
}

}  // namespace

int place_probes(const PlanView& plan, const LoadedModule& module, Jumps jumps, Slab& slab) {
  TextWriter writer(module);
  const std::uint32_t probes = plan.header->probe_count;
  bool any_jump = false;
  for (std::uint32_t place = 0; place < probes; ++place) {
    const std::uint32_t i = slab.by_address[place];
    Slot& slot = slab.slots[i];
    if (slot.offset != 0) {
      slot.state = judge(plan, place, module, jumps != Jumps::none, slab);
      if (slot.state == ProbeState::jump || slot.state == ProbeState::trap) {
        writer.write(entry_of(plan.probes[i], module), kTrap);
        any_jump = any_jump || slot.state == ProbeState::jump;
      }
    }
  }
  if (const int error = writer.flush(); error != 0) {
    remove_probes(plan, module, slab);
    return error;
  }
  if (!any_jump) return 0;
  make_cores_refetch();
  if (jumps == Jumps::when_safe && !others_make_system_calls()) {
    for (Slot* slot = slab.slots.data; slot != slab.slots.data + probes; ++slot)
      slot->state = slot->state == ProbeState::jump ? ProbeState::trap : slot->state;
    return 0;
  }
  for_each_jump(plan, module, slab, [&](std::uint32_t i, volatile std::uint8_t* entry) {
    const auto distance = static_cast<std::int32_t>(jump_distance(slab, i, entry));
    for (std::uint32_t byte = 1; byte < kJumpSize; ++byte) {
      writer.write(entry + byte, static_cast<std::uint8_t>(static_cast<std::uint32_t>(distance) >>
                                                           ((byte - 1) * CHAR_BIT)));
    }
  });
  writer.flush();
  make_cores_refetch();
  for_each_jump(plan, module, slab,
                [&](std::uint32_t, volatile std::uint8_t* entry) { writer.write(entry, kJump); });
  writer.flush();
  make_cores_refetch();
  return 0;
}

int remove_probes(const PlanView& plan, const LoadedModule& module, Slab& slab) {
  TextWriter writer(module);
  const std::uint32_t probes = plan.header->probe_count;
  bool any_jump = false;
  for (std::uint32_t place = 0; place < probes; ++place) {
    const std::uint32_t i = slab.by_address[place];
    Slot& slot = slab.slots[i];
    volatile std::uint8_t* const entry = entry_of(plan.probes[i], module);
    if (slot.state == ProbeState::jump) {
      const auto distance = static_cast<std::int32_t>(jump_distance(slab, i, entry));
      std::uint8_t ours[kJumpSize] = {kJump};
      std::memcpy(ours + 1, &distance, sizeof(distance));
      if (holds(entry, ours, kJumpSize)) {
        writer.write(entry, kTrap);
        any_jump = true;
      } else {
        slot.state = ProbeState::left_behind;
      }
    } else if (slot.state == ProbeState::trap) {
      if (*entry == kTrap) {
        writer.write(entry, plan.probes[i].original[0]);
        slot.state = ProbeState::unplaced;
      } else {
        slot.state = ProbeState::left_behind;
      }
    }
  }
  if (any_jump) {
    writer.flush();
    make_cores_refetch();
    for_each_jump(plan, module, slab, [&](std::uint32_t i, volatile std::uint8_t* entry) {
      for (std::uint32_t byte = 1; byte < kJumpSize; ++byte)
        writer.write(entry + byte, plan.probes[i].original[byte]);
    });
    writer.flush();
    make_cores_refetch();
    for_each_jump(plan, module, slab, [&](std::uint32_t i, volatile std::uint8_t* entry) {
      writer.write(entry, plan.probes[i].original[0]);
      slab.slots[i].state = ProbeState::unplaced;
    });
  }
  const int error = writer.flush();
  make_cores_refetch();
  return error;
}

}  // namespace optrace::agent
