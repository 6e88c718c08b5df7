#pragma once

#include <cstdint>

#include "tracer/in_process/agent/probes/placed_plan.h"

namespace optrace::agent {

// Probes on the instructions to which calls return (plan::ProbeKind::returned). The number of
// values that each of them records can be limited. After that, a jump no longer records, and an
// int3, each hit of which takes a signal, is removed by the thread that hit it.

/// From the next placed plan on, each return probe records this number of values; 0: all.
void limit_return_probes(std::uint32_t hits);

/// Starts counting the hits of a plan's return probes, which have just been placed. The plan must
/// stay where it is.
void add_return_probes(PlacedPlan& plan);

/// Forgets all plans. Call only while no other thread can be in a probe.
void forget_return_probes();

}  // namespace optrace::agent

extern "C" {

/// Called by the record routine for each hit of a return probe; see event_buffer.cpp. Returns 0 if
/// the value is not to be recorded.
std::uint32_t optrace_agent_count_return(std::uint32_t id);
}
