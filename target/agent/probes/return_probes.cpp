// Built with -mgeneral-regs-only: optrace_agent_count_return runs in the middle of an arbitrary
// function, as optrace_agent_refill does (event_buffer.cpp).

#include "target/agent/probes/return_probes.h"

#include "target/agent/probes/text_writer.h"
#include "target/agent/process/patching.h"

namespace optrace::agent {
namespace {

constexpr std::uint8_t kTrap = 0xcc;
constexpr std::uint32_t kMaxPlans = 1024;
constexpr std::uint32_t kMaxSlots = 4;

// The hits of a probe. Accessed by several threads at once, which may lose counts.
struct Hits {
  std::uint32_t recorded;  // With the slot that was added last.
  std::uint32_t in_vain;
  std::uint32_t slots[kMaxSlots];  // The lower halves of their addresses; 0: none yet.
};

struct CountedPlan {
  PlacedPlan* plan;
  PageArray<Hits> hits;  // By probe.
};
CountedPlan counted[kMaxPlans];
std::uint32_t counted_count = 0;  // Accessed atomically.
std::uint32_t limit = 0;

// Removes an int3. Does nothing for a jump. Other threads that have hit the int3 find the
// instruction restored (trap_handler.cpp).
void remove_trap(PlacedPlan& plan, std::uint32_t probe) {
  if (plan.slab.slots[probe].state != ProbeState::trap || !try_patching()) return;
  Slot& slot = plan.slab.slots[probe];
  const plan::Probe& planned = plan.view.probes[probe];
  const std::uint64_t address = planned.address + plan.module.bias;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  const auto* const byte = reinterpret_cast<const volatile std::uint8_t*>(address);
  if (plan.placed && slot.state == ProbeState::trap && *byte == kTrap) {
    write_unprotected(plan.module, address, planned.original, 1);
    slot.state = *byte == kTrap ? ProbeState::trap : ProbeState::unplaced;
  }
  end_patching();
}

std::uint32_t load(const std::uint32_t& value) {
  return __atomic_load_n(&value, __ATOMIC_RELAXED);
}

void store(std::uint32_t& value, std::uint32_t to) {
  __atomic_store_n(&value, to, __ATOMIC_RELAXED);
}

// Records a return slot. Returns true if the probe has not been hit with it, and may record again.
bool is_new_slot(Hits& hits, std::uint32_t slot) {
  for (std::uint32_t& known : hits.slots) {
    if (load(known) == slot) return false;
    if (load(known) == 0) {
      store(known, slot);
      return true;
    }
  }
  return false;
}

}  // namespace

void limit_return_probes(std::uint32_t hits) {
  limit = hits;
}

void add_return_probes(PlacedPlan& plan) {
  if (limit == 0) return;
  const std::uint32_t count = __atomic_load_n(&counted_count, __ATOMIC_ACQUIRE);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (counted[i].plan == &plan) {
      for (std::uint64_t probe = 0; probe < counted[i].hits.count; ++probe)
        counted[i].hits[probe] = {};
      return;
    }
  }
  bool any = false;
  for (std::uint32_t i = 0; i < plan.view.header->probe_count && !any; ++i)
    any = plan::is_return(plan.view.probes[i].kind);
  if (!any || count == kMaxPlans || !counted[count].hits.allocate(plan.view.header->probe_count))
    return;
  counted[count].plan = &plan;
  __atomic_store_n(&counted_count, count + 1, __ATOMIC_RELEASE);
}

void clear_return_probes() {
  while (counted_count > 0) counted[--counted_count].hits.release();
}

}  // namespace optrace::agent

std::uint32_t optrace_agent_count_return(std::uint64_t hit) {
  using namespace optrace::agent;
  if (limit == 0)  // Earlier recordings may have had one.
    return 1;
  const auto id = static_cast<std::uint32_t>(hit);
  const std::uint32_t count = __atomic_load_n(&counted_count, __ATOMIC_ACQUIRE);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t probe = id - counted[i].plan->first_id;
    if (probe >= counted[i].hits.count) continue;
    Hits& hits = counted[i].hits[probe];
    const bool again = is_new_slot(hits, static_cast<std::uint32_t>(hit >> 32));
    const std::uint32_t recorded = again ? 0 : load(hits.recorded);
    if (recorded < limit) {
      store(hits.recorded, recorded + 1);
      return 1;
    }
    const std::uint32_t in_vain = load(hits.in_vain);
    if (in_vain >= limit) {
      // If the probe can't be removed now, another thread is changing text: the next hit tries
      // again.
      remove_trap(*counted[i].plan, probe);
    } else {
      store(hits.in_vain, in_vain + 1);
    }
    return 0;
  }
  return 1;
}
