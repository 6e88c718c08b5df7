#pragma once

namespace optrace::agent {

/// Implements optrace_agent_python.
int set_python_events(bool on);

/// Marks the calling thread as not belonging to the program: set_python_events(true) on another
/// thread then ignores it. Call with or without the GIL.
void leave_this_thread_out();

/// For a forked child: calls that are live when its recording starts don't count as calls.
void leave_live_calls_to_parent();

/// For a forked child: makes every thread remove its profile function at its next event.
void reset_python_events();

/// Returns true if Python events were requested but could not be turned on.
bool python_events_failed();

/// Implements optrace_agent_python_missing.
int look_for_missing_python();

/// Implements optrace_agent_python_frames.
int record_live_python();

}  // namespace optrace::agent
