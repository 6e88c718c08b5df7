#pragma once

namespace optrace::agent {

/// Whether the calling thread is the only one of the process. False when it can't be told.
bool only_thread();

/// Returns when no thread has a SIGTRAP that was raised but not delivered; gives up after 100 ms.
void wait_for_pending_traps();

/// Waits, 100 ms at most, until every other thread that there is now has been seen in a system
/// call, or has ended. False if one has not.
bool others_make_system_calls();

/// Whether no thread blocks SIGTRAP: the kernel ends a process in which one that does meets an
/// int3. Waits two seconds for that or somewhat longer, because a thread blocks all signals while
/// it starts another thread or a program, which takes a while on a busy machine.
bool all_take_traps();

}  // namespace optrace::agent
