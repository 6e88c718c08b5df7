#include "report/merge/report_path.h"

#include <cstdint>
#include <vector>

#include <catch2/catch.hpp>

using namespace optrace;

namespace {

ReportPath path(std::uint32_t what, std::uint32_t traced, std::uint64_t calls) {
  ReportPath made;
  made.what = what;
  made.traced = traced;
  made.calls = calls;
  return made;
}

}  // namespace

TEST_CASE("equal paths are one, with the sum of their calls", "[report_path]") {
  ReportPathSet set;
  CHECK(set.add(path(1, 10, 2)) == 0);
  CHECK(set.add(path(2, 11, 1)) == 1);
  ReportPath again = path(1, 12, 3);
  again.threads = 4;
  again.also = {13};
  CHECK(set.add(again) == 0);
  REQUIRE(set.paths().size() == 2);
  CHECK(set.paths()[0].calls == 5);
  CHECK(set.paths()[0].threads == 4);
  CHECK(set.paths()[0].also == std::vector<std::uint32_t>{12, 13});
}

TEST_CASE("paths differ by what calls them, and roots by their thread", "[report_path]") {
  ReportPathSet set;
  const ReportPath root = path(1, 0, 1);
  set.add(root);
  ReportPath other = root;
  other.thread = 1;
  CHECK(set.add(other) == 1);
  other.parent = 0;
  CHECK(set.add(other) == 2);
  other.thread = 0;
  CHECK(set.add(other) == 2);  // A thread distinguishes roots only.
  other.tail_call = true;
  CHECK(set.add(other) == 3);
  other.call.line = 7;
  CHECK(set.add(other) == 4);
}

TEST_CASE("paths are found again after the table has grown", "[report_path]") {
  constexpr std::uint32_t kMany = 5000;
  ReportPathSet set;
  set.reserve(10);
  for (std::uint32_t i = 0; i < kMany; ++i) CHECK(set.add(path(i, i, 1)) == i);
  for (std::uint32_t i = 0; i < kMany; ++i) CHECK(set.add(path(i, i, 1)) == i);
  CHECK(set.paths().size() == kMany);
}

TEST_CASE("work is visited in the trace's order, with that of folded paths", "[report_path]") {
  Trace trace;
  trace.paths.resize(4);
  ReportPath shown = path(1, 1, 1);
  shown.also = {3};
  shown.folded_work = {0};
  std::vector<std::uint32_t> visited;
  for_each_traced_work(shown, trace,
                       [&](const TracePath&, std::uint32_t at) { visited.push_back(at); });
  CHECK(visited == std::vector<std::uint32_t>{0, 1, 3});
  std::size_t count = 0;
  for_each_traced(shown, trace, [&](const TracePath&) { ++count; });
  CHECK(count == 2);
}
