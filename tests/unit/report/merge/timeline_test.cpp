#include "report/merge/timeline.h"

#include <cstdint>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "target/interface/recording_format.h"
#include "tests/unit/trace_builder.h"

using namespace optrace;

TEST_CASE("works of a stream share a lane unless they ran at the same time", "[timeline]") {
  TraceBuilder t;
  t.trace.op_records = {"{}", R"({"kind": "copy", "device": 0, "stream": 7})"};
  std::vector<Event>& events = t.trace.threads[0].events;
  events.push_back({.kind = EventKind::device_call, .what = 0, .return_address = 1, .time = 5});
  constexpr std::uint64_t kReported = 100;
  for (const auto& [start, end] : {std::pair(10U, 20U), {20U, 30U}, {25U, 40U}, {30U, 35U}}) {
    const auto packed = recording::pack_activity({1, end - start, kReported - start});
    events.push_back({.kind = EventKind::device_activity,
                      .what = 1,
                      .stack_pointer = packed.stack_pointer,
                      .return_address = packed.return_address,
                      .time = kReported});
  }
  const CountedTimeline counted{.paths = {}, .statistics = {}, .calls = {{}}};
  const Timeline timeline = timeline_of(t.trace, counted, {});
  std::vector<std::vector<std::uint64_t>> starts;
  for (const Timeline::StreamLane& lane : timeline.lanes) {
    CHECK((lane.stream == 7 && lane.number == starts.size()));
    starts.emplace_back();
    for (const Timeline::Work& work : lane.works) starts.back().push_back(work.start);
  }
  CHECK(starts == std::vector<std::vector<std::uint64_t>>{{10, 20, 30}, {25}});
}
