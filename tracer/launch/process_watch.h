#pragma once

#include <chrono>

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

/// Returns true if a process that has ended, but has not been waited for, has waited for others.
bool waited_for_children(pid_t process);

}  // namespace optrace
