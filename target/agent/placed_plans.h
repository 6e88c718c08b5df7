#pragma once

#include <cstdint>

#include "target/agent/probes/plan_reader.h"
#include "target/agent/probes/text_patch.h"
#include "target/agent/process/pages.h"
#include "target/agent/recording/region.h"
#include "target/interface/agent.h"

namespace optrace::agent {

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
void clear_plans();

/// Counts the probes of all plans by outcome.
void count_probes(optrace_agent_counters& counters);

}  // namespace optrace::agent
