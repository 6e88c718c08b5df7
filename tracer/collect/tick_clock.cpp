#include "tracer/collect/tick_clock.h"

#include <cmath>
#include <ctime>
#include <limits>
#include <tuple>
#include <utility>

namespace optrace {
namespace {

std::uint64_t nanoseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

// Returns both clocks at one moment. If something came between the two, reads them again.
std::pair<std::uint64_t, std::uint64_t> clocks_now() {
  constexpr std::uint64_t kShort = 2000;  // Ticks, less than a microsecond.
  constexpr int kTries = 5;
  std::pair<std::uint64_t, std::uint64_t> best;
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

}  // namespace

std::uint64_t ticks_now() {
  return __builtin_ia32_rdtsc();
}

void TickClock::measure(std::uint64_t ticks, std::uint64_t nanoseconds) {
  if (ticks == 0 || nanoseconds == 0) std::tie(ticks, nanoseconds) = clocks_now();
  if (ticks <= start_ticks_ || nanoseconds <= start_nanoseconds_) return;
  const double ratio = static_cast<double>(nanoseconds - start_nanoseconds_) /
                       static_cast<double>(ticks - start_ticks_);
  if (std::isfinite(ratio)) nanoseconds_per_tick_ = ratio;
}

}  // namespace optrace
