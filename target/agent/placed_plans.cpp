#include "target/agent/placed_plans.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

#include <dlfcn.h>

#include "target/agent/callers/callers.h"
#include "target/agent/probes/placed_plan.h"
#include "target/agent/probes/return_probes.h"
#include "target/agent/probes/trap_handler.h"
#include "target/agent/probes/trap_table.h"
#include "target/agent/process/fork_lock.h"
#include "target/agent/process/patching.h"
#include "target/agent/process/system_calls.h"
#include "target/agent/process/threads.h"
#include "target/agent/recording/event_buffer.h"

namespace optrace::agent {
namespace {

constexpr std::uint32_t kMaxPlans = 1024;

// None of these objects has a destructor, because threads may be in probes until the process ends.
PlacedPlan plans[kMaxPlans];
std::uint32_t plan_count = 0;
std::uint32_t next_id = 0;

// Returns the entry of `plans` for the same plan and module, or null.
PlacedPlan* find_plan(const PlanView& view, const LoadedModule& module) {
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    if (plans[i].module.bias == module.bias && plans[i].module.build_id == module.build_id &&
        std::memcmp(plans[i].view.header, view.header, sizeof(plan::Header)) == 0) {
      return &plans[i];
    }
  }
  return nullptr;
}

bool set_path(PlacedPlan& plan, const char* path) {
  const std::size_t size = std::strlen(path) + 1;
  PageArray<char> copy;
  if (!copy.allocate(size)) return false;
  std::memcpy(copy.data, path, size);
  plan.path.release();
  plan.path = copy;
  return true;
}

// Fills a new entry of `plans` from a loaded plan and writes its slots. Takes ownership of `bytes`.
int prepare_plan(const PageArray<std::uint8_t>& bytes, const PlanView& view,
                 const LoadedModule& module, const char* path, PlacedPlan*& prepared) {
  const std::uint32_t probes = view.header->probe_count;
  if (plan_count == kMaxPlans || probes >= recording::kFirstPythonEvent - next_id) return -ENOSPC;
  PlacedPlan& plan = plans[plan_count];
  plan = PlacedPlan{};
  if (!set_path(plan, path)) return -ENOMEM;
  const int result = write_slots(view, module, next_id, plan.slab);
  if (result != 0) {
    plan.path.release();
    return result;
  }
  plan.bytes = bytes;
  plan.view = view;
  plan.module = module;
  plan.first_id = next_id;
  next_id += probes;
  ++plan_count;
  prepared = &plan;
  return 0;
}

std::uint32_t count_placed(const PlacedPlan& plan) {
  std::uint32_t placed = 0;
  for (std::uint32_t i = 0; i < plan.view.header->probe_count; ++i) {
    const ProbeState state = plan.slab.slots[i].state;
    placed += state == ProbeState::trap || state == ProbeState::jump ? 1 : 0;
  }
  return placed;
}

// Writes the plan's event ids to the region for its reader.
void describe(PlacedPlan& plan, Region& region) {
  if (plan.described_region != region.serial) {
    const auto path_size = static_cast<std::uint32_t>(std::strlen(plan.path.data));
    const SignalsBlocked guard;
    void* const section = begin_section(region, sizeof(recording::ProbeRange) + path_size);
    if (section == nullptr) return;
    plan.range = new (section) recording::ProbeRange{plan.first_id, plan.view.header->probe_count,
                                                     plan.placed_count, path_size};
    std::memcpy(static_cast<char*>(section) + sizeof(recording::ProbeRange), plan.path.data,
                path_size);
    complete_section(section, recording::SectionKind::probes);
    plan.described_region = region.serial;
  }
  __atomic_store_n(&plan.range->placed, plan.placed_count, __ATOMIC_RELEASE);
}

void describe_if_recording(PlacedPlan& plan) {
  if (running_round() != 0) describe(plan, *current_region());
}

int patch_in(PlacedPlan& plan, Jumps jumps) {
  plan.placed_count = 0;
  describe_if_recording(plan);  // Must precede the plan's events.
  const std::uint32_t probes = plan.view.header->probe_count;
  if (jumps != Jumps::at_once && !all_take_traps()) return -EPERM;
  const Patching guard;
  if (!reserve_traps(probes)) return -ENOMEM;
  for (std::uint32_t i = 0; i < probes; ++i)
    if (plan.slab.slots[i].offset != 0)
      add_trap(plan.view.probes[i].address + plan.module.bias, plan.slab.address(i));
  int result = install_trap_handler();
  if (result == 0) {
    plan.pin = dlopen(plan.module.name, RTLD_LAZY | RTLD_NOLOAD);
    result = place_probes(plan.view, plan.module, jumps, plan.slab);
  }
  if (result != 0) return result;
  plan.placed = true;
  plan.placed_count = count_placed(plan);
  add_return_probes(plan);
  if (plan.view.header->fork_lock != 0)
    wait_for_when_forking(plan.module, plan.view.header->fork_lock);
  add_probed_module(plan.module.first, plan.module.last);
  for (const plan::Piece& piece : plan.view.header->evaluation_loop)
    if (piece.last > piece.first)
      add_evaluation_loop(plan.module.bias + piece.first, plan.module.bias + piece.last);
  describe_if_recording(plan);
  return static_cast<int>(plan.placed_count);
}

bool find_module_of(const PlanView& view, LoadedModule& module) {
  const Patching guard;
  return find_module(view.header->build_id, view.header->build_id_size, view.path,
                     view.header->path_size, module);
}

}  // namespace

int place_loaded_plan(PageArray<std::uint8_t>& bytes, const PlanView& view, const char* path,
                      Jumps jumps) {
  LoadedModule module;
  int result = find_module_of(view, module) ? 0 : -ENXIO;
  PlacedPlan* plan = result == 0 ? find_plan(view, module) : nullptr;
  if (plan != nullptr) {
    result = plan->placed ? -EEXIST : 0;
    result = result == 0 && !set_path(*plan, path) ? -ENOMEM : result;
    bytes.release();
  } else if (result == 0) {
    result = prepare_plan(bytes, view, module, path, plan);
  }
  if (result != 0) {
    bytes.release();
    return result;
  }
  return patch_in(*plan, jumps);
}

bool any_plan_placed() {
  return std::any_of(plans, plans + plan_count, [](const PlacedPlan& plan) { return plan.placed; });
}

void describe_placed_plans(Region& region) {
  for (std::uint32_t i = 0; i < plan_count; ++i)
    if (plans[i].placed) describe(plans[i], region);
}

int remove_plans(bool& all_out) {
  // In reverse order, because a later plan may have been placed over bytes that an earlier one left
  // behind.
  for (std::uint32_t i = plan_count; i-- > 0;) {
    PlacedPlan& plan = plans[i];
    if (!plan.placed) continue;
    if (still_loaded(plan.module)) {
      const int result = remove_probes(plan.view, plan.module, plan.slab);
      if (result != 0) return result;
      for (std::uint32_t j = 0; j < plan.view.header->probe_count; ++j)
        all_out = all_out && plan.slab.slots[j].state != ProbeState::left_behind;
    }
    plan.placed = false;
    if (plan.pin != nullptr) {
      dlclose(plan.pin);
      plan.pin = nullptr;
    }
  }
  return 0;
}

void clear_plans() {
  while (plan_count > 0) {
    PlacedPlan& plan = plans[--plan_count];
    plan.slab.release();
    plan.bytes.release();
    plan.path.release();
    plan = PlacedPlan{};
  }
  next_id = 0;
}

void count_probes(optrace_agent_counters& counters) {
  for (std::uint32_t i = 0; i < plan_count; ++i) {
    const PlacedPlan& plan = plans[i];
    for (std::uint32_t j = 0; j < plan.view.header->probe_count; ++j) {
      const ProbeState state = plan.slab.slots[j].state;
      counters.left_behind += state == ProbeState::left_behind ? 1 : 0;
      if (plan.placed) {
        counters.jumps += state == ProbeState::jump ? 1 : 0;
        counters.traps += state == ProbeState::trap ? 1 : 0;
        counters.bytes_differ += state == ProbeState::bytes_differ ? 1 : 0;
        counters.no_room += state == ProbeState::no_room ? 1 : 0;
        counters.outside_text += state == ProbeState::outside_text ? 1 : 0;
        counters.overlapping += state == ProbeState::overlapping ? 1 : 0;
      }
    }
  }
}

}  // namespace optrace::agent
