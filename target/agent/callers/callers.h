#pragma once

#include <cstdint>

namespace optrace::agent {

// Recording of callers that have no probe. Without them, the call tree could only guess which of
// the frames seen earlier are still live. When a probe is hit, the return address shows if the
// caller has a probe. If it has none, the stack is unwound up to the next function that has one,
// and each frame in between is recorded (kCaller), outermost first. The recorded callers of an
// entry therefore never depend on functions found in other runs.

/// Allocates the tables. Must be called before the first probe. Returns false if memory can't be
/// allocated.
bool make_caller_tables();

/// Adds code (run-time addresses) of CPython's evaluation loop, whose frames run Python functions.
void add_evaluation_loop(std::uint64_t first, std::uint64_t last);

/// Adds a module with probes: the run-time addresses of its segments.
void add_probed_module(std::uint64_t first, std::uint64_t last);

/// Turns the recording of callers on or off. It is on initially.
void record_callers(bool on);

/// Clears what is known of callers' probes. Must not be called while recording.
void clear_callers();

/// Records the callers without a probe of a call that a library without probes makes known.
/// `frame_address` is that of the function that records them, which keeps a frame pointer. Returns
/// an address below which all frames have ended: just below the return slot of the nearest function
/// in a module with probes. Returns 0 if the frames up to there can't be unwound.
std::uint64_t put_callers_of_library(std::uint64_t frame_address, std::uint32_t round);

/// Returns the highest return slot above `stack_pointer` of a call that has ended, or that address
/// if there is none. The thread's last events show the calls; the slot of one that has not ended
/// still has its return address.
std::uint64_t ended_up_to(std::uint64_t stack_pointer);

}  // namespace optrace::agent

extern "C" {

/// Called by the record routine for a return address that is not known to be in a function with a
/// probe. `slot` is the address of the return address, `frame_pointer` the caller's rbp.
void optrace_agent_put_callers(std::uint64_t slot, std::uint64_t frame_pointer,
                               std::uint32_t round);
}
