#pragma once

#include <cstdint>

#include "target/agent/probes/plan_reader.h"
#include "target/agent/probes/probe_slots.h"
#include "target/agent/probes/text_patch.h"
#include "target/agent/process/modules.h"
#include "target/agent/process/pages.h"
#include "target/agent/recording/region.h"
#include "target/interface/agent.h"
#include "target/interface/recording_format.h"

namespace optrace::agent {

/// A plan that is or was placed. Its ids and slots are kept, because a thread may still be in a
/// slot, and are reused when the same plan is placed again.
struct PlacedPlan {
  PageArray<char> path;  ///< Null-terminated.
  PageArray<std::uint8_t> bytes;
  PlanView view;
  LoadedModule module;
  Slab slab;
  void* pin = nullptr;                     ///< Keeps the module loaded while probes are in it.
  recording::ProbeRange* range = nullptr;  ///< The plan's section in the region's arena.
  std::uint32_t described_region = 0;      ///< Serial of the region that `range` points into.
  std::uint32_t first_id = 0;
  std::uint32_t placed_count = 0;  ///< Number of probes placed the last time.
  bool placed = false;
};

/// Places a plan that was loaded into `bytes`, which it releases or takes over. Returns as
/// optrace_agent_place does. The recording contains `path`.
int place_loaded_plan(PageArray<std::uint8_t>& bytes, const PlanView& view, const char* path,
                      Jumps jumps);

bool any_plan_placed();

/// Writes the event ids of the placed plans to the region for its reader.
void describe_placed_plans(Region& region);

/// Removes all probes; clears `all_out` if other code had patched over some, which stay. Returns 0,
/// or -errno after the first plan that it can't remove. Text must not change meanwhile (Patching).
int remove_plans(bool& all_out);

/// Frees what removed plans have kept. Call only while no other thread can be in a probe.
void forget_plans();

/// Counts the probes of all plans by outcome.
void count_probes(optrace_agent_counters& counters);

}  // namespace optrace::agent
