#pragma once

#include "target/agent/python/profiler_state.h"

namespace optrace::agent::profilers {

/// Replaces _PyEval_SetProfile.
int set_profile_of(void* thread, ProfileFunction function, void* object);

/// Sets our function in front of the one that the program has just set on all threads.
void install_everywhere();

/// Redirects the imports of the libraries loaded since the last call; of all libraries the first
/// time. Leaves them to the next call while another thread changes text.
void hook_libraries();

/// Restores the imports. To be called while no other thread changes text.
void unhook_libraries();

/// For a forked child, whose imports are restored by others: the next call is the first again.
void clear_hooked_libraries();

}  // namespace optrace::agent::profilers
