#pragma once

#include <cstdint>

namespace optrace::agent {

// Who called a probed function, where the caller has no probe itself: without that, the tree could
// only guess which of the frames seen before are still live. At a probe's hit the return address
// tells whether the caller has a probe. If not, the stack is walked up to the next function that
// has one, and each frame on the way is recorded (kCaller), the outermost first. So what is known
// about an entry never depends on what other runs have found.

/// Makes the tables; must come before the first probe. False without memory.
bool make_caller_tables();

/// Whether they are recorded; at first they are.
void record_callers(bool on);

/// Forgets which callers have probes. While nothing is recorded.
void forget_callers();

}  // namespace optrace::agent

extern "C" {

/// Called by the record routine for a return address that is not known to be in a function with a
/// probe: `slot` is the address of the return address, `frame_pointer` the caller's rbp.
void optrace_agent_note_callers(std::uint64_t slot, std::uint64_t frame_pointer,
                                std::uint32_t round);
}
