#pragma once

#include <cstdint>

#include "tracer/in_process/agent/process/modules.h"

namespace optrace::agent {

/// From now on, a fork waits until no other thread has the mutex at `address` (as linked) of
/// `module`, which then is never unloaded. Ignores an address outside of the module. For one
/// mutex: another one takes its place.
void wait_for_when_forking(const LoadedModule& module, std::uint64_t address);

/// Takes that mutex, if there is one, before the process forks.
void lock_for_fork();

/// Lets it go again, in the parent and in the child.
void unlock_after_fork();

}  // namespace optrace::agent
