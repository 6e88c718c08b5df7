#include "target/agent/probes/signal_calls.h"

#include <atomic>
#include <csignal>

#include <pthread.h>
#include <unistd.h>

#include "target/agent/probes/trap_handler.h"
#include "target/agent/process/import_redirect.h"

namespace optrace::agent {
namespace {

using SetAction = int (*)(int signal, const struct sigaction* action, struct sigaction* before);
using SetHandler = sighandler_t (*)(int signal, sighandler_t handler);
using SetMask = int (*)(int how, const sigset_t* set, sigset_t* before);

void* original_action = nullptr;
void* original_handler = nullptr;
void* original_mask = nullptr;
void* original_thread_mask = nullptr;

std::atomic<pid_t> process{0};

// True if the program has the thread block SIGTRAP.
__attribute__((tls_model("initial-exec"))) __thread bool blocks_traps = false;

bool is_own_call() {
  return getpid() == process.load(std::memory_order_relaxed);
}

// Replaces sigaction().
int set_action(int signal, const struct sigaction* action, struct sigaction* before) {
  if (signal != SIGTRAP || !is_own_call())
    return reinterpret_cast<SetAction>(original_action)(signal, action, before);
  const struct sigaction known = program_trap_action();
  if (action != nullptr) set_program_trap_action(*action);
  if (before != nullptr) *before = known;
  return 0;
}

// Replaces signal().
sighandler_t set_handler(int signal, sighandler_t handler) {
  if (signal != SIGTRAP || !is_own_call())
    return reinterpret_cast<SetHandler>(original_handler)(signal, handler);
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaddset(&action.sa_mask, signal);
  const sighandler_t before = program_trap_action().sa_handler;
  set_program_trap_action(action);
  return before;
}

int set_mask(void* original, int how, const sigset_t* set, sigset_t* before) {
  const auto call = reinterpret_cast<SetMask>(original);
  if (!is_own_call()) return call(how, set, before);
  const bool blocked = blocks_traps;
  sigset_t others;
  if (set != nullptr) {
    others = *set;
    const bool listed = sigismember(set, SIGTRAP) == 1;
    if (how != SIG_UNBLOCK) sigdelset(&others, SIGTRAP);
    if (listed || how == SIG_SETMASK) blocks_traps = listed && how != SIG_UNBLOCK;
  }
  const int result = call(how, set == nullptr ? nullptr : &others, before);
  if (result != 0) blocks_traps = blocked;
  if (result == 0 && blocked && before != nullptr) sigaddset(before, SIGTRAP);
  return result;
}

// Replaces sigprocmask().
int set_process_mask(int how, const sigset_t* set, sigset_t* before) {
  return set_mask(original_mask, how, set, before);
}

// Replaces pthread_sigmask().
int set_thread_mask(int how, const sigset_t* set, sigset_t* before) {
  return set_mask(original_thread_mask, how, set, before);
}

const optrace_agent_redirection kSignalCalls[] = {
    {"sigaction", pointer_to(set_action), &original_action},
    {"signal", pointer_to(set_handler), &original_handler},
    {"sigprocmask", pointer_to(set_process_mask), &original_mask},
    {"pthread_sigmask", pointer_to(set_thread_mask), &original_thread_mask},
};
constexpr std::uint32_t kSignalCallCount = sizeof(kSignalCalls) / sizeof(kSignalCalls[0]);

}  // namespace

void redirect_signal_calls() {
  if (are_in_use(kSignalCalls, kSignalCallCount)) return;
  adopt_signal_calls();
  redirect_imports(nullptr, kSignalCalls, kSignalCallCount);
}

void redirect_signal_calls_of_loaded(const void* inside) {
  if (are_in_use(kSignalCalls, kSignalCallCount))
    redirect_imports(inside, kSignalCalls, kSignalCallCount);
}

void adopt_signal_calls() {
  process.store(getpid(), std::memory_order_relaxed);
}

}  // namespace optrace::agent
