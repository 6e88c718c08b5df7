#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <sys/types.h>

namespace optrace {

/// ptrace(2) by its numbers; -1 and errno where it fails.
long trace(int request, pid_t thread, std::uint64_t address, std::uint64_t data);

template <typename T>
std::uint64_t address_of(T& value) {
  return reinterpret_cast<std::uint64_t>(&value);
}

/// The threads of a process, the main one first.
std::vector<pid_t> threads_of(pid_t process);

/// Waits for a stop of a thread that this thread has seized; `status` is then as waitpid says it.
/// `end`: it has ended, or is somebody else's.
enum class WaitedFor { stop, end, nothing };
WaitedFor wait_for_thread(pid_t thread, int& status, std::chrono::steady_clock::time_point limit);

/// Stops such a thread wherever it is, as PTRACE_INTERRUPT does. Signals that come meanwhile are
/// delivered.
WaitedFor interrupt_thread(pid_t thread, int& status, std::chrono::steady_clock::time_point limit);

/// Lets SIGTRAP through to all threads of a process that block it, as long as this lives: the
/// system ends a process of which such a thread comes to an int3. Each of them is stopped for a
/// moment. Threads that can't be stopped are left as they are.
class UnblockedTraps {
 public:
  explicit UnblockedTraps(pid_t process);
  ~UnblockedTraps();
  UnblockedTraps(const UnblockedTraps&) = delete;
  UnblockedTraps& operator=(const UnblockedTraps&) = delete;

 private:
  pid_t process_;
  std::vector<pid_t> threads_;  ///< That blocked it.
};

}  // namespace optrace
