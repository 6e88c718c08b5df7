#pragma once

#include <csignal>

#include <sys/types.h>

namespace optrace {

/// While one lives, a signal that asks this process to end or do something (SIGINT, SIGTERM,
/// SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2) goes to another one instead. What the terminal sends (Ctrl-C)
/// it sends to every process of the foreground group, so that is not passed on a second time. What
/// is ignored stays ignored. At most one at a time; the earlier handlers come back with the
/// destructor.
class SignalForwarder {
 public:
  SignalForwarder();
  ~SignalForwarder();
  SignalForwarder(const SignalForwarder&) = delete;
  SignalForwarder& operator=(const SignalForwarder&) = delete;

  /// From now on to this process, and what came before now as well; 0: to nobody any more.
  static void forward_to(pid_t process) noexcept;

 private:
  static constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
  struct sigaction previous_[sizeof kSignals / sizeof *kSignals]{};
};

}  // namespace optrace
