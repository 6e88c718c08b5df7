#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include <sys/types.h>
#include <sys/user.h>

#include "platform/process/running_process.h"

namespace optrace {

/// Code in another process, at run-time addresses. Every C library contains it.
struct CallingCode {
  struct Range {
    std::uint64_t first = 0, last = 0;  ///< [first, last)
  };
  std::uint64_t system_call = 0;  ///< syscall; ret
  std::uint64_t restore = 0;      ///< mov $15,%rax; syscall: signal handlers return there.
  std::uint64_t spare = 0;        ///< Room for thread_return_code() in the vDSO; 0 if none.
  /// The code is there already: another optrace has stopped a thread, or was killed, and its thread
  /// may still need it.
  bool spare_taken = false;
  std::vector<Range> locking;  ///< C library and loader, where a thread may hold a lock.
};

/// Throws Error(failed) if there is no such code, and the error of why_not_allowed() if access is
/// refused.
CallingCode find_calling_code(const RunningProcess& process);

/// One thread of another process, stopped by ptrace until destruction. It then continues with all
/// its registers and its system call, as if it had not been stopped. The other threads of the
/// process continue to run. Signals for the stopped thread wait.
///
/// Calls return through a frame that contains the thread's own state, so that the thread continues
/// correctly even if this process is killed at any moment: a signal frame, or a ThreadReturn if the
/// kernel remembers the rest of the thread's system call, as of a sleep.
class StoppedThread {
 public:
  /// Stops a thread of `process` that may call the interpreter: one in a system call, the main
  /// thread first, or else one that is not in `code.locking`. Throws Error(failed) if there is none
  /// within `timeout` or the process has ended, and the error of why_not_allowed() if the
  /// system refuses.
  StoppedThread(pid_t process, CallingCode code, std::chrono::milliseconds timeout);
  ~StoppedThread();
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;

  /// Calls the function at `address`. Its return value is not available, only its effects. Throws
  /// Error(failed) if it takes longer than a second, or the process ends.
  void call(std::uint64_t address, std::initializer_list<std::uint64_t> arguments);

  /// Makes a system call and returns its result, -errno if it failed.
  std::int64_t system_call(long number, std::initializer_list<std::uint64_t> arguments);

  /// Bytes at scratch(), on the thread's stack, that nothing else uses while this object lives.
  static constexpr std::size_t kScratchBytes = 64;
  std::uint64_t scratch() const { return scratch_; }

 private:
  bool stop(pid_t thread, bool any_code);
  void run(std::uint64_t address, user_regs_struct registers);
  void keep_state();
  std::vector<std::byte> signal_frame(const user_regs_struct& state,
                                      std::uint64_t extended_at) const;
  void write_frame();
  bool put_in_spare(std::span<const std::byte> code) const;
  bool resume_until_stop(int request, int milliseconds);
  bool wait_for_stop(std::chrono::steady_clock::time_point end);
  bool at_restoring_call() const;
  void come_back();
  void detach();

  const pid_t process_;
  pid_t thread_ = 0;
  const CallingCode code_;
  user_regs_struct before_{};        ///< Registers of the stopped thread.
  std::vector<std::byte> extended_;  ///< Extended state of the stopped thread (NT_X86_XSTATE).
  std::uint64_t mask_ = 0;           ///< Signal mask of the stopped thread.
  std::uint64_t frame_ = 0;          ///< Address of the frame.
  std::uint64_t return_ = 0;         ///< Address of the code that restores the thread from it.
  std::uint64_t return_number_ = 0;  ///< The first system call of that code.
  std::uint64_t return_called_ = 0;  ///< Address of the instruction behind that call.
  std::uint64_t scratch_ = 0;
  std::vector<int> signals_;  ///< Signals that could not wait, to be sent again.
  std::int64_t result_ = 0;   ///< Of the last system call.
  int status_ = 0;            ///< Of the last stop, from waitpid.
  bool running_ = false;      ///< True between stops.
  bool called_ = false;
  bool gone_ = false;
};

}  // namespace optrace
