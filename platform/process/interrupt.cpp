#include "platform/process/interrupt.h"

#include "platform/error.h"

namespace optrace {
namespace {

volatile std::sig_atomic_t signal_came = 0;

extern "C" void record_signal(int signal) {
  signal_came = signal;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  signal_came = 0;
  struct sigaction action{};
  action.sa_handler = record_signal;
  ::sigaction(SIGINT, &action, &previous_interrupt_);
  ::sigaction(SIGTERM, &action, &previous_terminate_);
  ::sigaction(SIGHUP, &action, &previous_hangup_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &previous_interrupt_, nullptr);
  ::sigaction(SIGTERM, &previous_terminate_, nullptr);
  ::sigaction(SIGHUP, &previous_hangup_, nullptr);
}

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
    throw Error(ExitStatus::interrupted, "interrupted",
                "Nothing was changed; run the command again when ready.");
  }
}

}  // namespace optrace
