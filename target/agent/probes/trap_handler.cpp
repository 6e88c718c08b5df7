#include "target/agent/probes/trap_handler.h"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>

#include <pthread.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "target/agent/probes/signal_calls.h"
#include "target/agent/probes/trap_table.h"
#include "target/agent/process/threads.h"

namespace optrace::agent {
namespace {

constexpr std::uint8_t kTrap = 0xcc;
// The program's action is the one of these that `current` tells. Two, so that a thread which reads
// one doesn't find another half of it.
struct sigaction actions[2];
std::atomic<unsigned> current{0};
bool installed = false;

// Handles the signal as the process would without the agent. A trap without a handler kills the
// process.
void pass_on(int signal, siginfo_t* information, void* context) {
  const bool from_kernel = information->si_code > 0;
  const struct sigaction handler = program_trap_action();
  if (handler.sa_handler == SIG_IGN && !from_kernel) return;
  if (handler.sa_handler == SIG_DFL || handler.sa_handler == SIG_IGN) {
    struct sigaction standard{};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal);
    return;
  }
  if ((static_cast<unsigned>(handler.sa_flags) & SA_RESETHAND) != 0) {
    struct sigaction standard = handler;
    standard.sa_handler = SIG_DFL;
    set_program_trap_action(standard);
  }
  sigset_t mask = handler.sa_mask;
  if ((handler.sa_flags & SA_NODEFER) == 0) sigaddset(&mask, signal);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &mask, &before);
  if ((handler.sa_flags & SA_SIGINFO) != 0)
    handler.sa_sigaction(signal, information, context);
  else
    handler.sa_handler(signal);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void on_trap(int signal, siginfo_t* information, void* context) {
  if (information->si_code == SI_KERNEL) {
    greg_t& rip = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    const auto entry = static_cast<std::uint64_t>(rip) - 1;
    const std::uint64_t slot = find_trap(entry);
    if (slot != 0) {
      // The probe was removed after this thread hit it: execute the restored instruction.
      // NOLINTNEXTLINE(performance-no-int-to-ptr)
      const bool placed = *reinterpret_cast<const volatile std::uint8_t*>(entry) == kTrap;
      rip = static_cast<greg_t>(placed ? slot : entry);
      return;
    }
  }
  const int error = errno;
  pass_on(signal, information, context);
  errno = error;
}

}  // namespace

int install_trap_handler() {
  struct sigaction now{};
  if (sigaction(SIGTRAP, nullptr, &now) != 0) return -errno;
  if (installed && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_trap) {
    redirect_signal_calls();
    return 0;
  }
  // The other handler may pass signals on to ours; installing ours again would create a loop.
  if (installed) return -EBUSY;
  // Not on the alternative stack, which may be small. Not deferred, because the handler that a
  // signal is passed on to may itself enter a probed function.
  struct sigaction ours{};
  ours.sa_sigaction = on_trap;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART;
  sigemptyset(&ours.sa_mask);
  set_program_trap_action(now);
  redirect_signal_calls();
  if (sigaction(SIGTRAP, &ours, nullptr) != 0) return -errno;
  installed = true;
  return 0;
}

void restore_trap_handler(bool none_in_traps) {
  // Another thread may have hit a trap whose signal has not been raised yet. That can't be
  // detected, and without a handler the signal would kill the process.
  if (!installed || (!none_in_traps && !only_thread())) return;
  wait_for_pending_traps();
  struct sigaction now{};
  if (sigaction(SIGTRAP, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 &&
      now.sa_sigaction == on_trap) {
    const struct sigaction action = program_trap_action();
    sigaction(SIGTRAP, &action, nullptr);
    installed = false;
  }
}

struct sigaction program_trap_action() {
  return actions[current.load(std::memory_order_acquire) % 2];
}

void set_program_trap_action(const struct sigaction& action) {
  const unsigned next = current.load(std::memory_order_relaxed) + 1;
  actions[next % 2] = action;
  current.store(next, std::memory_order_release);
}

}  // namespace optrace::agent
