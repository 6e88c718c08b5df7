#include "indexer/wheel/anchor_alignment.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

const std::string kFile = "aten/src/ATen/native/A.cpp";

std::vector<IndexedAnchor> anchors(
    std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> lines_and_keys) {
  std::vector<IndexedAnchor> made;
  for (const auto& [line, key] : lines_and_keys) made.push_back({kFile, line, key});
  return made;
}

}  // namespace

TEST_CASE("A line between anchors that moved alike is exact", "[anchor_alignment]") {
  const auto from = anchors({{10, 1}, {20, 2}, {40, 3}, {50, 4}});
  const auto to = anchors({{10, 1}, {25, 2}, {45, 3}, {52, 4}});
  const AnchorAlignment alignment(from, to);

  // Before the first anchor, which has not moved.
  CHECK(alignment.carry(kFile, 5).line == 5);
  CHECK(!alignment.carry(kFile, 5).approximate);
  // Five lines came in between 10 and 20.
  const MappedLine between = alignment.carry(kFile, 12);
  CHECK(between.line == 12);
  CHECK(between.approximate == LineInterval{12, 17});
  CHECK(alignment.carry(kFile, 19).line == 24);
  // Nothing changed between 20 and 40.
  CHECK(alignment.carry(kFile, 30).line == 35);
  CHECK(!alignment.carry(kFile, 30).approximate);
  // The line of an anchor itself.
  CHECK(alignment.carry(kFile, 50).line == 52);
  CHECK(!alignment.carry(kFile, 50).approximate);
  // Behind the last one, no bound is known.
  const MappedLine behind = alignment.carry(kFile, 60);
  CHECK(behind.line == 62);
  CHECK(behind.approximate == LineInterval{});
}

TEST_CASE("A line is not exact if an anchor came or went beside it", "[anchor_alignment]") {
  const auto from = anchors({{10, 1}, {20, 2}});
  // A function with a check took the place of lines that were removed.
  const AnchorAlignment added(from, anchors({{10, 1}, {15, 9}, {20, 2}}));
  CHECK(added.carry(kFile, 12).line == 12);
  CHECK(added.carry(kFile, 12).approximate == LineInterval{10, 20});
  const AnchorAlignment removed(anchors({{10, 1}, {15, 9}, {20, 2}}), from);
  CHECK(removed.carry(kFile, 12).approximate.has_value());
}

TEST_CASE("Files without common anchors keep their lines without a claim", "[anchor_alignment]") {
  const auto from = anchors({{10, 1}});
  const AnchorAlignment alignment(from, {});
  CHECK(alignment.is_gone(kFile));
  CHECK(!alignment.is_gone("other.cpp"));
  CHECK(alignment.carry(kFile, 5).approximate == LineInterval{});
  CHECK(alignment.carry("other.cpp", 7).line == 7);
  CHECK(alignment.carry("other.cpp", 7).approximate == LineInterval{});
  const AnchorAlignment unlike(from, anchors({{10, 2}}));
  CHECK(!unlike.is_gone(kFile));
  CHECK(unlike.carry(kFile, 10).approximate == LineInterval{});
}
