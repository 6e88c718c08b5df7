#pragma once

namespace optrace::agent {

/// As optrace_agent_python.
int set_python_events(bool on);

}  // namespace optrace::agent
