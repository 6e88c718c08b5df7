#include "gpu/emulated/memory/byte_ranges.h"

#include <cstddef>
#include <random>
#include <vector>

#include <catch2/catch.hpp>

using optrace::emulated::ByteRange;
using optrace::emulated::ByteRanges;

TEST_CASE("ranges that touch become one, and lose what is removed") {
  ByteRanges ranges;
  ranges.add({10, 20});
  ranges.add({30, 40});
  ranges.add({20, 25});
  CHECK(ranges.bytes() == 25);
  CHECK(ranges.inside({0, 100}) == std::vector<ByteRange>{{10, 25}, {30, 40}});
  CHECK(ranges.inside({24, 31}) == std::vector<ByteRange>{{24, 25}, {30, 31}});
  CHECK(ranges.remove({12, 35}) == std::vector<ByteRange>{{12, 25}, {30, 35}});
  CHECK(ranges.inside({0, 100}) == std::vector<ByteRange>{{10, 12}, {35, 40}});
  ranges.add({5, 5});
  CHECK(ranges.bytes() == 7);
  CHECK(ranges.inside({12, 35}).empty());
}

TEST_CASE("ranges of bytes hold what a list of flags holds") {
  constexpr std::size_t kBytes = 64;
  std::mt19937 random(1);
  ByteRanges ranges;
  std::vector<bool> flags(kBytes);
  for (int step = 0; step < 2000; ++step) {
    const std::size_t begin = random() % kBytes;
    const std::size_t end = begin + random() % (kBytes - begin + 1);
    const bool add = random() % 2 == 0;
    if (add)
      ranges.add({begin, end});
    else
      ranges.remove({begin, end});
    for (std::size_t at = begin; at < end; ++at) flags[at] = add;
    std::vector<bool> seen(kBytes);
    for (const ByteRange& range : ranges.inside({0, kBytes}))
      for (std::size_t at = range.begin; at < range.end; ++at) seen[at] = true;
    REQUIRE(seen == flags);
  }
}
