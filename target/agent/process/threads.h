#pragma once

namespace optrace::agent {

/// Returns true if the calling thread is the only one of the process, false if that can't be
/// determined.
bool only_thread();

/// Returns when no thread has a pending SIGTRAP. Gives up after 100 ms.
void wait_for_pending_traps();

/// Waits up to 100 ms until every other thread that exists now has been seen in a system call or
/// has ended. Returns false if one has not.
bool others_make_system_calls();

/// Returns true if no thread blocks SIGTRAP; the kernel kills a process in which a thread that
/// blocks it reaches an int3. Waits two seconds or slightly longer, because a thread blocks all
/// signals while it starts another thread or a program, and that takes a while on a busy machine.
bool all_take_traps();

}  // namespace optrace::agent
