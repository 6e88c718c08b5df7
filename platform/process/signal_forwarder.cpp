#include "platform/process/signal_forwarder.h"

#include <atomic>
#include <cerrno>

namespace optrace {
namespace {

constexpr int kMaxSignals = 64;

std::atomic<pid_t> receiver = 0;
std::atomic<bool> waiting[kMaxSignals];
std::atomic<int> end_request = 0;

static_assert(std::atomic<pid_t>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void pass_on(int signal, siginfo_t* information, void* /*context*/) {
  if (signal != SIGUSR1 && signal != SIGUSR2) end_request = signal;
  if (information->si_code == SI_KERNEL) return;
  const int error = errno;
  waiting[signal] = true;
  const pid_t process = receiver;
  if (process > 0 && waiting[signal].exchange(false)) ::kill(process, signal);
  errno = error;
}

}  // namespace

SignalForwarder::SignalForwarder() {
  receiver = 0;
  end_request = 0;
  for (std::atomic<bool>& signal : waiting) signal = false;
  int place = 0;
  for (const int signal : kSignals) {
    ::sigaction(signal, nullptr, &previous_[place]);
    if (previous_[place].sa_handler != SIG_IGN) {
      struct sigaction action{};
      action.sa_sigaction = pass_on;
      action.sa_flags = SA_SIGINFO | SA_RESTART;
      ::sigaction(signal, &action, nullptr);
    }
    ++place;
  }
}

SignalForwarder::~SignalForwarder() {
  receiver = 0;
  int place = 0;
  for (const int signal : kSignals) ::sigaction(signal, &previous_[place++], nullptr);
}

int SignalForwarder::take_end_request() noexcept {
  return end_request.exchange(0);
}

void SignalForwarder::forward_to(pid_t process) noexcept {
  receiver = process;
  if (process <= 0) return;
  for (int signal = 1; signal < kMaxSignals; ++signal)
    if (waiting[signal].exchange(false)) ::kill(process, signal);
}

}  // namespace optrace
