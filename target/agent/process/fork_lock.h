#pragma once

#include <cstdint>

#include "target/agent/process/modules.h"

namespace optrace::agent {

/// From now on, a fork waits until no other thread holds the mutex at `address` (as linked) of
/// `module`. The module then stays loaded. Ignores an address outside the module. Only one mutex is
/// supported: a second call replaces the first.
void wait_for_when_forking(const LoadedModule& module, std::uint64_t address);

/// Locks that mutex, if one is set, before the process forks.
void lock_for_fork();

/// Unlocks that mutex, in the parent and in the child.
void unlock_after_fork();

}  // namespace optrace::agent
