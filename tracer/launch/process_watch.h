#pragma once

#include <chrono>
#include <set>

#include <sys/types.h>

#include "platform/files/descriptor.h"

namespace optrace {

/// How often to look for the end of processes. All else wakes the thread that looks, but the one
/// that reads events may get no processor for long.
inline constexpr std::chrono::milliseconds kWatchPause{8};

/// Detects the end of a process, whoever its parent is.
class ProcessWatch {
 public:
  explicit ProcessWatch(pid_t process);

  bool ended() const;

  /// Negative if the system has no pidfds.
  int descriptor() const { return end_.get(); }

  /// Returns true if the process ends within this time.
  bool ends_within(std::chrono::milliseconds limit) const;

 private:
  pid_t process_;
  Descriptor end_;
};

/// Looks for processes that another one has started, they or those below them, and that use torch.
/// One that uses it for less than the time between two looks is not noticed: a program needs longer
/// to import it. A copy that a fork makes counts only if it stays.
class ChildrenWatch {
 public:
  explicit ChildrenWatch(pid_t process) : process_(process) {}

  /// Looks, if the last time was a fifth of a second ago or more.
  void look();
  bool used_torch() const { return used_torch_; }

 private:
  void look_below(pid_t process);

  using Clock = std::chrono::steady_clock;

  pid_t process_;
  Clock::time_point looked_;
  bool used_torch_ = false;
  std::set<pid_t> had_torch_, have_torch_;  // At the last look, and at this one.
};

/// Returns true if a process that has ended, but has not been waited for, has waited for others.
bool waited_for_children(pid_t process);

}  // namespace optrace
