#include "tracer/collect/recent_map.h"

#include <catch2/catch.hpp>

using optrace::RecentMap;

TEST_CASE("the last keys are kept, and old ones are forgotten", "[recent_map]") {
  RecentMap<int, int> map(3);
  CHECK(map.find(0) == nullptr);
  for (int i = 0; i < 10; ++i) {
    map.set(i, i * i);
    for (int kept = i < 3 ? 0 : i - 2; kept <= i; ++kept) {
      REQUIRE(map.find(kept) != nullptr);
      CHECK(*map.find(kept) == kept * kept);
    }
    if (i >= 6) CHECK(map.find(i - 6) == nullptr);
  }
  map.set(9, -1);
  CHECK(*map.find(9) == -1);
}
