#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <sys/types.h>

namespace optrace {

/// The kernel's internal code for a system call that it makes again after a stop, unless a signal
/// handler ran (include/linux/errno.h: ERESTARTNOHAND).
inline constexpr std::int64_t kRestartNoHandler = -514;

/// Calls ptrace(2) by its numbers. Returns -1 and sets errno if it fails.
long trace(int request, pid_t thread, std::uint64_t address, std::uint64_t data);

template <typename T>
std::uint64_t address_of(T& value) {
  return reinterpret_cast<std::uint64_t>(&value);
}

/// Returns the threads of a process, the main one first.
std::vector<pid_t> threads_of(pid_t process);

/// The outcome of waiting for a thread. `end`: it has ended, or another process traces it.
enum class WaitedFor { stop, end, nothing };
/// Waits for a stop of a thread that the calling thread has seized. Sets `status` as waitpid does.
WaitedFor wait_for_thread(pid_t thread, int& status, std::chrono::steady_clock::time_point limit);

/// Stops such a thread at any point, as PTRACE_INTERRUPT does. Signals that arrive meanwhile are
/// delivered.
WaitedFor interrupt_thread(pid_t thread, int& status, std::chrono::steady_clock::time_point limit);

/// Leaves a thread that interrupt_thread() has not seen stop. It is detached from once it stops,
/// which is what a thread in uninterruptible sleep does late; it would otherwise stay stopped.
/// Returns false if it does not stop for seconds: the kernel releases it when this process ends.
bool leave_once_stopped(pid_t thread);

/// While it lives, SIGTRAP is unblocked in all threads of a process that block it, because the
/// system kills a process if such a thread executes an int3. Each of them is stopped for a moment,
/// in this process by a child. Threads that can't be stopped are left unchanged.
class UnblockedTraps {
 public:
  explicit UnblockedTraps(pid_t process);
  ~UnblockedTraps();
  UnblockedTraps(const UnblockedTraps&) = delete;
  UnblockedTraps& operator=(const UnblockedTraps&) = delete;

 private:
  pid_t process_;
  std::vector<pid_t> threads_;  ///< The threads that blocked it.
};

}  // namespace optrace
