#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "present/progress_display.h"

namespace optrace {

/// Reports the progress of long work on standard error: a bar that is redrawn on a terminal,
/// otherwise one line for each tenth of the work.
class ProgressReporter {
 public:
  /// Begins a step. update() counts its parts, if it has any.
  void begin(const std::string& step);
  void update(std::size_t done, std::size_t total);

 private:
  using Clock = std::chrono::steady_clock;

  ProgressDisplay bar_;
  std::string step_;
  Clock::time_point started_;
  Clock::time_point drawn_;
  std::size_t tenths_ = 0;
};

}  // namespace optrace
