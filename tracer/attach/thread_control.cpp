#include "tracer/attach/thread_control.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "platform/files/whole_file.h"
#include "platform/process/interrupt.h"
#include "platform/process/running_process.h"

namespace optrace {

using Clock = std::chrono::steady_clock;

namespace {

constexpr std::uint64_t kTrap = 1ULL << (SIGTRAP - 1);

// Returns an empty status for a thread that has ended.
ProcessStatus status_of(pid_t thread) {
  return parse_process_status(read_file(fmt::format("/proc/{}/status", thread)).value_or(""));
}

/// The kernel ends these calls with EINTR at a stop, with and without a signal. If this one waits
/// for an event without a limit of time, it begins again, as other calls do.
void resume_waiting(pid_t thread) {
  constexpr std::uint64_t kEpollPwait2 = 441;
  user_regs_struct registers{};
  if (trace(PTRACE_GETREGS, thread, 0, address_of(registers)) != 0) return;
  const std::uint64_t call = registers.orig_rax;
  const bool counts_milliseconds = call == SYS_epoll_wait || call == SYS_epoll_pwait;
  const bool unlimited = (counts_milliseconds && static_cast<int>(registers.r10) < 0) ||
                         (call == kEpollPwait2 && registers.r10 == 0) ||
                         (call == SYS_rt_sigtimedwait && registers.rdx == 0);
  if (!unlimited || static_cast<std::int64_t>(registers.rax) != -EINTR) return;
  registers.rax = static_cast<std::uint64_t>(kRestartNoHandler);
  trace(PTRACE_SETREGS, thread, 0, address_of(registers));
}

/// Makes a thread block or unblock SIGTRAP. Returns false if the thread can't be stopped.
bool block_traps(pid_t thread, bool block) {
  constexpr std::chrono::milliseconds kLimit{100};
  if (trace(PTRACE_SEIZE, thread, 0, 0) != 0) return false;
  int status = 0;
  const WaitedFor came = interrupt_thread(thread, status, Clock::now() + kLimit);
  std::uint64_t mask = 0;
  bool done = false;
  if (came == WaitedFor::stop &&
      trace(PTRACE_GETSIGMASK, thread, sizeof mask, address_of(mask)) == 0) {
    mask = block ? mask | kTrap : mask & ~kTrap;
    done = trace(PTRACE_SETSIGMASK, thread, sizeof mask, address_of(mask)) == 0;
  }
  if (came == WaitedFor::stop) trace(PTRACE_DETACH, thread, 0, 0);
  if (came == WaitedFor::nothing) leave_once_stopped(thread);
  return done;
}

// Returns true if a process may only be traced by those above it, unless it names others (Yama).
bool only_descendants_are_traced() {
  return read_file("/proc/sys/kernel/yama/ptrace_scope").value_or("0").starts_with('1');
}

// Makes threads block or unblock SIGTRAP, if they can be stopped.
void block_traps_of(std::span<const pid_t> threads, bool block) {
  for (const pid_t thread : threads) block_traps(thread, block);
}

// Same for threads of this process, which can't trace itself: a child does it, of which the program
// sees nothing. It makes system calls only, since another thread may hold a lock.
void block_own_traps(std::span<const pid_t> threads, bool block) {
  int gate[2];
  if (threads.empty() || ::pipe2(gate, O_CLOEXEC) != 0) return;
  constexpr unsigned long kNoSignalAtItsEnd = 0;
  const auto child =
      static_cast<pid_t>(::syscall(SYS_clone, kNoSignalAtItsEnd, nullptr, nullptr, nullptr, 0UL));
  if (child == 0) {
    char opened = 0;
    ::close(gate[1]);
    (void)!::read(gate[0], &opened, 1);
    block_traps_of(threads, block);
    ::_exit(0);
  }
  const bool named =
      child > 0 && only_descendants_are_traced() && ::prctl(PR_SET_PTRACER, child, 0, 0, 0) == 0;
  ::close(gate[1]);
  ::close(gate[0]);
  while (child > 0 && ::waitpid(child, nullptr, __WALL) < 0 && errno == EINTR) {
  }
  if (named) ::prctl(PR_SET_PTRACER, 0, 0, 0, 0);
}

}  // namespace

long trace(int request, pid_t thread, std::uint64_t address, std::uint64_t data) {
  return ::syscall(SYS_ptrace, request, thread, address, data);
}

std::vector<pid_t> threads_of(pid_t process) {
  std::vector<pid_t> threads = {process};
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), ignored)) {
    const auto thread =
        static_cast<pid_t>(std::strtol(entry.path().filename().c_str(), nullptr, 10));
    if (thread > 0 && thread != process) threads.push_back(thread);
  }
  return threads;
}

WaitedFor wait_for_thread(pid_t thread, int& status, Clock::time_point limit) {
  constexpr timespec kPause{0, 20'000};
  while (true) {
    const pid_t got = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 || (got > 0 && !WIFSTOPPED(status))) return WaitedFor::end;
    if (got > 0) return WaitedFor::stop;
    if (Clock::now() > limit) return WaitedFor::nothing;
    ::nanosleep(&kPause, nullptr);
  }
}

WaitedFor interrupt_thread(pid_t thread, int& status, Clock::time_point limit) {
  trace(PTRACE_INTERRUPT, thread, 0, 0);
  while (true) {
    const WaitedFor came = wait_for_thread(thread, status, limit);
    if (came != WaitedFor::stop) return came;
    if (status >> 16 == PTRACE_EVENT_STOP) {
      resume_waiting(thread);
      return came;
    }
    // Deliver the signal.
    trace(PTRACE_CONT, thread, 0, static_cast<std::uint64_t>(WSTOPSIG(status)));
  }
}

bool leave_once_stopped(pid_t thread) {
  constexpr std::chrono::seconds kLimit{3};
  int status = 0;
  const WaitedFor came = wait_for_thread(thread, status, Clock::now() + kLimit);
  if (came != WaitedFor::stop) return came == WaitedFor::end;
  // A signal that arrived before is delivered.
  const bool interrupted = status >> 16 == PTRACE_EVENT_STOP;
  trace(PTRACE_DETACH, thread, 0, interrupted ? 0 : static_cast<std::uint64_t>(WSTOPSIG(status)));
  return true;
}

UnblockedTraps::UnblockedTraps(pid_t process) : process_(process) {
  const auto blocks = [](pid_t thread) { return (status_of(thread).blocked & kTrap) != 0; };
  if (process != ::getpid()) {
    for (const pid_t thread : threads_of(process)) {
      if (InterruptGuard::interrupted()) break;  // The next wait throws.
      if (blocks(thread) && block_traps(thread, false)) threads_.push_back(thread);
    }
    return;
  }
  std::ranges::copy_if(threads_of(process), std::back_inserter(threads_), blocks);
  block_own_traps(threads_, false);
  std::erase_if(threads_, blocks);
}

UnblockedTraps::~UnblockedTraps() {
  // Another process may have the number of a thread that has ended.
  std::erase_if(threads_, [&](pid_t thread) { return status_of(thread).process != process_; });
  process_ == ::getpid() ? block_own_traps(threads_, true) : block_traps_of(threads_, true);
}

}  // namespace optrace
