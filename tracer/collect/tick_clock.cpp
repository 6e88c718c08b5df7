#include "tracer/collect/tick_clock.h"

#include <ctime>
#include <limits>

namespace optrace {
namespace {

std::uint64_t nanoseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

// If something came between the two clocks, they are read again.
ClockMoment moment_now() {
  constexpr std::uint64_t kShort = 2000;  // Ticks, less than a microsecond.
  constexpr int kTries = 5;
  ClockMoment best;
  std::uint64_t shortest = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < kTries && shortest > kShort; ++i) {
    const std::uint64_t before = ticks_now();
    const std::uint64_t nanoseconds = nanoseconds_now();
    const std::uint64_t took = ticks_now() - before;
    if (took < shortest) best = {before + took / 2, nanoseconds};
    shortest = std::min(shortest, took);
  }
  return best;
}

std::uint64_t ticks_now() {
  return __builtin_ia32_rdtsc();
}

void TickClock::measure(ClockMoment now) {
  measure(first_, now);
}

void TickClock::measure_recording(ClockMoment stop) {
  if (start_.ticks != 0) measure(start_, stop);
}

void TickClock::measure(ClockMoment from, ClockMoment to) {
  if (to.ticks <= from.ticks || to.nanoseconds <= from.nanoseconds) return;
  const std::uint64_t ticks = to.ticks - from.ticks;
  if (ticks <= measured_) return;
  measured_ = ticks;
  nanoseconds_per_tick_ =
      static_cast<double>(to.nanoseconds - from.nanoseconds) / static_cast<double>(ticks);
}

}  // namespace optrace
