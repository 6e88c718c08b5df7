#pragma once

#include <csignal>

namespace optrace {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process but set a flag, so that the
/// current work can be stopped and undone. System calls are interrupted (EINTR), so that a wait
/// ends at once. The destructor restores the earlier handlers. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// True once a signal has arrived.
  static bool interrupted() noexcept;

  /// Returns the signal that arrived last while the last guard lived, 0 if none.
  static int signal() noexcept;

  /// Throws Error(interrupted, "interrupted") once a signal has arrived.
  static void throw_if_interrupted();

  /// Clears the flag; only later signals count.
  static void clear() noexcept;

 private:
  struct sigaction previous_interrupt_{};
  struct sigaction previous_terminate_{};
  struct sigaction previous_hangup_{};
};

/// Ignores SIGINT during its lifetime: Ctrl-C is for another program on the terminal, such as a
/// pager or an editor. To be made after that program has started, since programs inherit it.
class IgnoredInterrupt {
 public:
  IgnoredInterrupt();
  ~IgnoredInterrupt();
  IgnoredInterrupt(const IgnoredInterrupt&) = delete;
  IgnoredInterrupt& operator=(const IgnoredInterrupt&) = delete;

 private:
  struct sigaction previous_{};
};

}  // namespace optrace
