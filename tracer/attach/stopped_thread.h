#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

#include <sys/types.h>
#include <sys/user.h>

#include "platform/running_process.h"

namespace optrace {

/// Code in another process, by its run-time addresses, as every C library has it.
struct CallingCode {
  struct Range {
    std::uint64_t first = 0, last = 0;  ///< [first, last)
  };
  std::uint64_t system_call = 0;  ///< syscall; ret
  std::uint64_t restore = 0;      ///< mov $15,%rax; syscall: what signal handlers return to.
  std::vector<Range> locking;     ///< The C library and the loader: a thread may hold a lock there.
};

/// Throws Error(failed) where there is none, and what why_not_allowed() says.
CallingCode find_calling_code(const RunningProcess& process);

/// One thread of another process, held still by ptrace until destruction. Then it goes on with its
/// every register, and whatever system call it was in, as if nothing had been. The process's other
/// threads run on. Signals that come to it meanwhile wait.
///
/// What is called returns through a signal frame that has the thread's own state in it. So the
/// thread finds its way back even when this process is killed at any moment.
class StoppedThread {
 public:
  /// Stops a thread of `process` that may call the interpreter: one in a system call, the main
  /// thread first; without any, one that is in none of `code.locking`. Throws Error(failed) when
  /// none is to be had within a tenth of a second or the process has ended, and what
  /// why_not_allowed() says when the system refuses.
  StoppedThread(pid_t process, CallingCode code);
  ~StoppedThread();
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

  /// Calls the function at `address`. What it returns can't be had; see what it did. Throws
  /// Error(failed) when it takes longer than a second, or the process ends.
  void call(std::uint64_t address, std::initializer_list<std::uint64_t> arguments);

  /// Makes a system call, and returns what that did: -errno where it failed.
  std::int64_t system_call(long number, std::initializer_list<std::uint64_t> arguments);

  /// Bytes on the thread's stack that nothing else uses as long as this lives.
  static constexpr std::size_t kScratchBytes = 64;
  std::uint64_t scratch() const { return scratch_; }

 private:
  bool stop(pid_t thread, bool any_code);
  void run(std::uint64_t address, user_regs_struct registers);
  void keep_state();
  void write_signal_frame();
  bool resume_until_stop(int request, int milliseconds);
  bool wait_for_stop(std::chrono::steady_clock::time_point end);
  bool at_restoring_call() const;
  void come_back();
  void detach();

  const pid_t process_;
  pid_t thread_ = 0;
  const CallingCode code_;
  user_regs_struct before_{};  ///< All that the thread was when it was stopped:
  std::vector<std::byte> extended_;
  std::uint64_t mask_ = 0;
  std::uint64_t frame_ = 0;  ///< The signal frame's address.
  std::uint64_t scratch_ = 0;
  std::vector<int> signals_;  ///< That could not wait, and are to be sent again.
  std::int64_t result_ = 0;   ///< Of the last system call that was made for us.
  int status_ = 0;            ///< Of the last stop, as waitpid says it.
  bool running_ = false;      ///< Between a stop and the next.
  bool called_ = false;
  bool gone_ = false;
};

}  // namespace optrace
