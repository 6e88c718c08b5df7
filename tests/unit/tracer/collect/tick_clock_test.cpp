#include "tracer/collect/tick_clock.h"

#include <cstdint>
#include <limits>

#include <catch2/catch.hpp>

using optrace::TickClock;
using optrace::ticks_now;

TEST_CASE("ticks are converted with the measured frequency", "[tick_clock]") {
  TickClock clock(1000, 50);
  clock.measure(3000, 1050);
  CHECK(clock.nanoseconds(1000) == 0);
  CHECK(clock.nanoseconds(999) == 0);
  CHECK(clock.nanoseconds(2000) == 500);
  CHECK(clock.nanoseconds(5000) == 2000);
  clock.measure(5000, 8050);  // Later and more precise.
  CHECK(clock.nanoseconds(2000) == 2000);
}

TEST_CASE("a clock without a later moment keeps its frequency", "[tick_clock]") {
  TickClock clock(1000, 50);
  clock.measure(3000, 1050);
  clock.measure(1000, 2000);
  clock.measure(4000, 50);
  CHECK(clock.nanoseconds(2000) == 500);
}

TEST_CASE("without a moment, the clock is measured until now", "[tick_clock]") {
  TickClock clock(ticks_now() - 1'000'000, 1);
  clock.measure(0, 0);
  CHECK(clock.nanoseconds(ticks_now()) > 0);
}

TEST_CASE("times that don't fit are the largest", "[tick_clock]") {
  TickClock clock(0, 0);
  clock.measure(1, 1'000'000'000'000);
  CHECK(clock.nanoseconds(std::numeric_limits<std::uint64_t>::max()) == 9'000'000'000'000'000'000);
}
