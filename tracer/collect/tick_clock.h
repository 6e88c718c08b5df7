#pragma once

#include <algorithm>
#include <cstdint>

namespace optrace {

/// Returns the processor's time stamp counter, as recorded events have it.
std::uint64_t ticks_now();

/// Converts ticks of the time stamp counter to nanoseconds since a start. The counter's frequency
/// is measured against CLOCK_MONOTONIC, the more precisely the later.
class TickClock {
 public:
  /// The start, in ticks and in nanoseconds of CLOCK_MONOTONIC.
  TickClock(std::uint64_t start_ticks, std::uint64_t start_nanoseconds)
      : start_ticks_(start_ticks), start_nanoseconds_(start_nanoseconds) {}

  std::uint64_t start_ticks() const { return start_ticks_; }
  std::uint64_t start_nanoseconds() const { return start_nanoseconds_; }

  /// Measures the frequency up to a later moment. If either argument is 0, up to now.
  void measure(std::uint64_t ticks, std::uint64_t nanoseconds);

  /// Returns 0 for ticks before the start.
  std::uint64_t nanoseconds(std::uint64_t ticks) const {
    if (ticks <= start_ticks_) return 0;
    constexpr double kMax = 9e18;
    return static_cast<std::uint64_t>(
        std::min(static_cast<double>(ticks - start_ticks_) * nanoseconds_per_tick_, kMax));
  }

 private:
  std::uint64_t start_ticks_;
  std::uint64_t start_nanoseconds_;
  double nanoseconds_per_tick_ = 0;
};

}  // namespace optrace
