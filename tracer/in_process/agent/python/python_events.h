#pragma once

namespace optrace::agent {

/// As optrace_agent_python.
int set_python_events(bool on);

/// The calling thread is none of the program's: set_python_events(true) on another one leaves it
/// alone. Without the GIL, or with it.
void leave_this_thread_out();

/// In a forked child: every thread's profile function goes with its next event.
void forget_python_events();

/// Whether they were to be on and could not be.
bool python_events_failed();

/// As optrace_agent_python_missing.
int look_for_missing_python();

/// As optrace_agent_python_frames.
int record_live_python();

}  // namespace optrace::agent
