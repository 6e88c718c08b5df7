#include "platform/process/interrupt.h"

#include <cstddef>
#include <string>
#include <string_view>

#include <unistd.h>

#include "platform/error.h"
#include "platform/files/output_file.h"
#include "platform/files/private_folder.h"
#include "platform/process/child_process.h"

namespace optrace {
namespace {

constexpr std::string_view kNothingChanged =
    "Nothing was changed; run the command again when ready.";

volatile std::sig_atomic_t signal_came = 0;

extern "C" void record_signal(int signal) {
  signal_came = signal;
}

void write_now(std::string_view text) {
  (void)!::write(STDERR_FILENO, text.data(), text.size());
}

// Async-signal-safe calls only.
extern "C" void end_process(int signal) {
  OutputFile::remove_unfinished();
  ChildProcess::kill_groups();
  PrivateFolder::remove_all();
  if (::isatty(STDERR_FILENO) != 0) write_now("\n");  // Below a line of progress.
  write_now("optrace: interrupted\n");
  write_now(kNothingChanged);
  write_now("\n");
  ::_exit(kSignalled + signal);
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

EndOnSignal::EndOnSignal() : handled_(end_process) {}

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
    throw Error(ExitStatus::interrupted, "interrupted", std::string(kNothingChanged));
  }
}

}  // namespace optrace
