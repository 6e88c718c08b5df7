#include "tracer/calltree/tick_clock.h"

#include <cmath>
#include <ctime>

namespace optrace {
namespace {

std::uint64_t nanoseconds_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace

std::uint64_t ticks_now() {
  return __builtin_ia32_rdtsc();
}

void TickClock::measure(std::uint64_t ticks, std::uint64_t nanoseconds) {
  if (ticks == 0 || nanoseconds == 0) {
    ticks = ticks_now();
    nanoseconds = nanoseconds_now();
  }
  if (ticks <= start_ticks_ || nanoseconds <= start_nanoseconds_) return;
  const double ratio = static_cast<double>(nanoseconds - start_nanoseconds_) /
                       static_cast<double>(ticks - start_ticks_);
  if (std::isfinite(ratio)) nanoseconds_per_tick_ = ratio;
}

}  // namespace optrace
