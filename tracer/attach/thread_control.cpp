#include "tracer/attach/thread_control.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

#include <fmt/core.h>
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
  for (const pid_t thread : threads_of(process)) {
    if (InterruptGuard::interrupted()) break;  // The next wait throws.
    const bool blocks = (status_of(thread).blocked & kTrap) != 0;
    if (blocks && block_traps(thread, false)) threads_.push_back(thread);
  }
}

UnblockedTraps::~UnblockedTraps() {
  // Another process may have the number of a thread that has ended.
  for (const pid_t thread : threads_)
    if (status_of(thread).process == process_) block_traps(thread, true);
}

}  // namespace optrace
