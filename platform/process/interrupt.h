#pragma once

#include <array>
#include <csignal>

namespace optrace {

/// While it lives, SIGINT, SIGTERM and SIGHUP call a function. Those that this process was told to
/// ignore (nohup) stay ignored. System calls are interrupted (EINTR). The destructor restores the
/// earlier handlers.
class HandledSignals {
 public:
  explicit HandledSignals(void (*handler)(int));
  ~HandledSignals();
  HandledSignals(const HandledSignals&) = delete;
  HandledSignals& operator=(const HandledSignals&) = delete;

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP};
  std::array<struct sigaction, kSignals.size()> previous_{};
};

/// While it lives, these signals do not end the process but set a flag, so that the current work
/// can be stopped and undone. At most one at a time.
class InterruptGuard {
 public:
  /// What an interrupted command tells the user.
  static constexpr const char* kRemedy = "Nothing was changed; run the command again when ready.";

  InterruptGuard();

  /// True once a signal has arrived.
  static bool interrupted() noexcept;

  /// Returns the signal that arrived last while the last guard lived, 0 if none.
  static int signal() noexcept;

  /// Throws Error(interrupted, "interrupted") once a signal has arrived.
  static void throw_if_interrupted();

  /// Clears the flag; only later signals count.
  static void clear() noexcept;

 private:
  HandledSignals handled_;
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
