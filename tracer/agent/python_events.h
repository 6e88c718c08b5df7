#pragma once

namespace optrace::agent {

/// As optrace_agent_python.
int set_python_events(bool on);

/// As optrace_agent_python_frames.
int record_live_python();

}  // namespace optrace::agent
