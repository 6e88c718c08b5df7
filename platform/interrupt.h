#pragma once

#include <csignal>

namespace optrace {

/// While one lives, SIGINT, SIGTERM and SIGHUP do not end the process but set a flag, so that
/// whoever is at work can stop, undo and leave. The earlier handlers come back with the destructor.
/// System calls are interrupted (EINTR), so a wait ends at once. At most one at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  /// True once a signal came.
  static bool interrupted() noexcept;

  /// Throws Error(interrupted, "interrupted") once a signal came.
  static void throw_if_interrupted();

  /// What came so far was heeded; only another signal counts from now on.
  static void forget() noexcept;

 private:
  struct sigaction previous_interrupt_{};
  struct sigaction previous_terminate_{};
  struct sigaction previous_hangup_{};
};

}  // namespace optrace
