#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace optrace {

/// Tells on standard error how far long work has come: a bar that renews itself on a terminal,
/// elsewhere a line for each tenth of the work.
class ProgressReporter {
 public:
  ProgressReporter();
  ~ProgressReporter();
  ProgressReporter(const ProgressReporter&) = delete;
  ProgressReporter& operator=(const ProgressReporter&) = delete;

  /// A step without parts, or the name of the one whose parts update() counts.
  void begin(const std::string& step);
  void update(std::size_t done, std::size_t total);

 private:
  using Clock = std::chrono::steady_clock;
  void clear_bar();

  bool terminal_ = false;
  bool bar_shown_ = false;
  std::string step_;
  Clock::time_point started_;
  Clock::time_point drawn_;
  std::size_t tenths_ = 0;
};

}  // namespace optrace
