#pragma once

#include <csignal>

#include <sys/types.h>

namespace optrace {

/// While it lives, signals that ask this process to end or act (SIGINT, SIGTERM, SIGHUP, SIGQUIT,
/// SIGUSR1, SIGUSR2) are forwarded to another process. Signals from the terminal (Ctrl-C) are not:
/// the terminal sends them to every process of the foreground group. Ignored signals stay ignored.
/// The destructor restores the earlier handlers. At most one at a time.
class SignalForwarder {
 public:
  SignalForwarder();
  ~SignalForwarder();
  SignalForwarder(const SignalForwarder&) = delete;
  SignalForwarder& operator=(const SignalForwarder&) = delete;

  /// From now on, forwards signals to this process, including those that arrived before; 0: to
  /// none.
  static void forward_to(pid_t process) noexcept;

  /// Returns the last signal since the last call that asks a process to end (SIGINT, SIGTERM,
  /// SIGHUP, SIGQUIT), from the terminal or not; 0 if there was none.
  static int take_end_request() noexcept;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  struct sigaction previous_[sizeof kSignals / sizeof *kSignals]{};
};

}  // namespace optrace
