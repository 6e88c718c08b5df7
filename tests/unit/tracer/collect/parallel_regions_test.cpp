#include "tracer/collect/parallel_regions.h"

#include <catch2/catch.hpp>

using optrace::ParallelRegions;

TEST_CASE("a worker's region is the one that another thread entered nearest in time",
          "[parallel_regions]") {
  ParallelRegions regions;
  CHECK_FALSE(regions.is_body(7));
  CHECK(regions.nearest_entry(7, 1, 0) == nullptr);
  regions.add_entry(7, {.time = 100, .thread = 0, .path = 10});
  regions.add_entry(7, {.time = 200, .thread = 0, .path = 20});
  regions.add_entry(7, {.time = 190, .thread = 1, .path = 30});
  CHECK(regions.is_body(7));
  CHECK(regions.nearest_entry(7, 1, 140)->path == 10);
  CHECK(regions.nearest_entry(7, 1, 190)->path == 20);  // Not its own.
  CHECK(regions.nearest_entry(7, 2, 191)->path == 30);
  CHECK(regions.nearest_entry(7, 2, 1'000'000)->path == 20);
  CHECK(regions.nearest_entry(8, 2, 100) == nullptr);
}

TEST_CASE("of the entries of a body, the last ones are kept", "[parallel_regions]") {
  ParallelRegions regions;
  for (std::uint32_t i = 0; i < 65; ++i) regions.add_entry(7, {.time = i, .thread = 0, .path = i});
  CHECK(regions.nearest_entry(7, 1, 0)->path == 1);
  CHECK(regions.nearest_entry(7, 1, 64)->path == 64);
}

TEST_CASE("the pointer to the shared data identifies the last region opened with it",
          "[parallel_regions]") {
  ParallelRegions regions;
  CHECK(regions.opened_with(0x10) == nullptr);
  regions.open(0x10, {.path = 1, .thread = 0, .counting = true});
  regions.open(0x10, {.path = 2, .thread = 3, .counting = false});
  regions.open(0x20, {.path = 4, .thread = 0, .counting = true});
  const ParallelRegions::Region* const region = regions.opened_with(0x10);
  REQUIRE(region != nullptr);
  CHECK(region->path == 2);
  CHECK(region->thread == 3);
  CHECK_FALSE(region->counting);
}
