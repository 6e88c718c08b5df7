#pragma once

#include <algorithm>
#include <cstdint>

namespace optrace {

/// Returns the processor's time stamp counter, as recorded events have it.
std::uint64_t ticks_now();

/// The time stamp counter and CLOCK_MONOTONIC in nanoseconds at one moment.
struct ClockMoment {
  std::uint64_t ticks = 0;
  std::uint64_t nanoseconds = 0;
};

ClockMoment moment_now();

/// Converts ticks of the time stamp counter to nanoseconds since a start. The counter's frequency
/// is measured against CLOCK_MONOTONIC, the more precisely the later. It is never measured from
/// zero: the counter runs before the system starts, and goes on while a laptop sleeps.
class TickClock {
 public:
  /// The frequency is measured from `first` on.
  explicit TickClock(ClockMoment first) : first_(first) {}

  /// Sets the moment from which nanoseconds() counts. Until then, that returns 0.
  void start(ClockMoment start) { start_ = start; }
  const ClockMoment& started() const { return start_; }

  /// Measures the frequency up to a later moment.
  void measure(ClockMoment now);

  /// Same, from the start to `stop`, if that took longer.
  void measure_recording(ClockMoment stop);

  /// Returns 0 for ticks before the start.
  std::uint64_t nanoseconds(std::uint64_t ticks) const {
    if (start_.ticks == 0 || ticks <= start_.ticks) return 0;
    constexpr double kMax = 9e18;
    return static_cast<std::uint64_t>(
        std::min(static_cast<double>(ticks - start_.ticks) * nanoseconds_per_tick_, kMax));
  }

 private:
  void measure(ClockMoment from, ClockMoment to);

  ClockMoment first_;
  ClockMoment start_;
  std::uint64_t measured_ = 0;  ///< The ticks over which the frequency was measured.
  double nanoseconds_per_tick_ = 0;
};

}  // namespace optrace
