#include "platform/process/interrupt.h"

#include <cstddef>

#include "platform/error.h"

namespace optrace {
namespace {

volatile std::sig_atomic_t signal_came = 0;

extern "C" void record_signal(int signal) {
  signal_came = signal;
}

}  // namespace

HandledSignals::HandledSignals(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  for (std::size_t i = 0; i < kSignals.size(); ++i) {
    ::sigaction(kSignals[i], nullptr, &previous_[i]);
    if (previous_[i].sa_handler != SIG_IGN) ::sigaction(kSignals[i], &action, nullptr);
  }
}

HandledSignals::~HandledSignals() {
  for (std::size_t i = 0; i < kSignals.size(); ++i)
    ::sigaction(kSignals[i], &previous_[i], nullptr);
}

// Cleared first: the next signal counts.
InterruptGuard::InterruptGuard()
    : handled_([] {
        clear();
        return record_signal;
      }()) {}

bool InterruptGuard::interrupted() noexcept {
  return signal_came != 0;
}

int InterruptGuard::signal() noexcept {
  return signal_came;
}

void InterruptGuard::clear() noexcept {
  signal_came = 0;
}

IgnoredInterrupt::IgnoredInterrupt() {
  struct sigaction ignore{};
  ignore.sa_handler = SIG_IGN;
  ::sigaction(SIGINT, &ignore, &previous_);
}

IgnoredInterrupt::~IgnoredInterrupt() {
  ::sigaction(SIGINT, &previous_, nullptr);
}

void InterruptGuard::throw_if_interrupted() {
  if (interrupted()) {
    throw Error(ExitStatus::interrupted, "interrupted", kRemedy);
  }
}

}  // namespace optrace
