#pragma once

#include <cstdint>

#include "target/agent/probes/placed_plan.h"

namespace optrace::agent {

// Probes on the instructions to which calls return (plan::ProbeKind::returned). The number of
// values that each of them records can be limited. Another return slot shows that a call was
// reached by another path, or in another thread; then the probe records the number again, for up to
// four slots. After that, a jump no longer records, and an int3, each hit of which takes a signal,
// is removed by the thread that hit it once it has been hit in vain as often.

/// From the next placed plan on, each return probe records this number of values; 0: all.
void limit_return_probes(std::uint32_t hits);

/// Starts counting the hits of a plan's return probes, which have just been placed. The plan must
/// stay where it is.
void add_return_probes(PlacedPlan& plan);

/// Removes all plans. Call only while no other thread can be in a probe.
void clear_return_probes();

}  // namespace optrace::agent

extern "C" {

/// Called by the record routine for each hit of a return probe; see event_buffer.cpp. The lower
/// half of `hit` is the probe's id, the upper half the lower one of the address of the return slot.
/// Returns 0 if the value is not to be recorded.
std::uint32_t optrace_agent_count_return(std::uint64_t hit);
}
