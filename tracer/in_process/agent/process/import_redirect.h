#pragma once

#include <cstdint>

#include "tracer/in_process/agent/interface/agent.h"

namespace optrace::agent {

/// Implement optrace_agent_redirect and optrace_agent_restore. Only one call at a time.
int redirect_imports(const void* inside, const optrace_agent_redirection* redirections,
                     std::uint32_t count);
int restore_imports(const optrace_agent_redirection* redirections, std::uint32_t count);

/// Number of entries that other code had changed by the time they were to be restored.
std::uint64_t imports_left_behind();

}  // namespace optrace::agent
