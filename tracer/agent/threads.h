#pragma once

namespace optrace::agent {

/// Whether the calling thread is the only one of the process. False when it can't be told.
bool only_thread();

/// Returns when no thread has a SIGTRAP that was raised but not delivered; gives up after 100 ms.
void wait_for_pending_traps();

/// Whether no thread blocks SIGTRAP: the kernel ends a process in which one that does meets an
/// int3.
bool all_take_traps();

}  // namespace optrace::agent
