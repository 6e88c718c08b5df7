#include "tracer/collect/tick_clock.h"

#include <cstdint>
#include <limits>

#include <catch2/catch.hpp>

using optrace::moment_now;
using optrace::TickClock;
using optrace::ticks_now;

TEST_CASE("ticks are converted with the measured frequency", "[tick_clock]") {
  TickClock clock({500, 20});
  clock.measure({2500, 1020});
  CHECK(clock.nanoseconds(2000) == 0);  // Nothing has started.
  clock.start({1000, 50});
  CHECK(clock.nanoseconds(1000) == 0);
  CHECK(clock.nanoseconds(999) == 0);
  CHECK(clock.nanoseconds(2000) == 500);
  CHECK(clock.nanoseconds(5000) == 2000);
  clock.measure({4500, 8020});  // Later and more precise.
  CHECK(clock.nanoseconds(2000) == 2000);
}

TEST_CASE("a counter that ran before the clock changes no time", "[tick_clock]") {
  // Such as that of a laptop that slept: the counter went on, the clock did not.
  TickClock clock({9'000'000, 1000});
  clock.measure({9'002'000, 2000});
  clock.start({9'001'000, 1500});
  CHECK(clock.nanoseconds(9'003'000) == 1000);
}

TEST_CASE("a clock without a later moment keeps its frequency", "[tick_clock]") {
  TickClock clock({1000, 50});
  clock.start({1000, 50});
  clock.measure({3000, 1050});
  clock.measure({1000, 2000});
  clock.measure({4000, 50});
  CHECK(clock.nanoseconds(2000) == 500);
}

TEST_CASE("the longer measurement counts", "[tick_clock]") {
  TickClock clock({1000, 50});
  clock.measure({3000, 1050});
  clock.start({2000, 550});
  clock.measure_recording({3000, 650});
  CHECK(clock.nanoseconds(4000) == 1000);
  clock.measure_recording({6000, 4550});
  CHECK(clock.nanoseconds(4000) == 2000);
}

TEST_CASE("a clock follows the processor's", "[tick_clock]") {
  TickClock clock(moment_now());
  clock.start(moment_now());
  clock.measure(moment_now());
  CHECK(clock.nanoseconds(ticks_now()) > 0);
}

TEST_CASE("times that don't fit are the largest", "[tick_clock]") {
  TickClock clock({1, 1});
  clock.start({1, 1});
  clock.measure({2, 1'000'000'000'000});
  CHECK(clock.nanoseconds(std::numeric_limits<std::uint64_t>::max()) == 9'000'000'000'000'000'000);
}
