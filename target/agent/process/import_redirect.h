#pragma once

#include <cstdint>

#include "target/interface/agent.h"

namespace optrace::agent {

/// Returns the address of a function, as optrace_agent_redirection has it.
template <typename Function>
void* pointer_to(Function* function) {
  return reinterpret_cast<void*>(function);
}

// Only one call of the following functions at a time.

/// Implement optrace_agent_redirect and optrace_agent_restore.
int redirect_imports(const void* inside, const optrace_agent_redirection* redirections,
                     std::uint32_t count);
int restore_imports(const optrace_agent_redirection* redirections, std::uint32_t count);

/// Returns true if an entry is redirected to one of the replacements.
bool are_in_use(const optrace_agent_redirection* redirections, std::uint32_t count);

/// Number of entries that other code had changed by the time they were to be restored.
std::uint64_t imports_left_behind();

}  // namespace optrace::agent
