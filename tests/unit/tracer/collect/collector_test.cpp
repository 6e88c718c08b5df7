#include "tracer/collect/collector.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "target/interface/recording_format.h"
#include "tests/unit/tracer/hand_written_region.h"

using namespace optrace;
using namespace optrace::test;

namespace {

namespace r = recording;

using Region = HandWrittenRegion;
constexpr std::uint32_t kChunks = Region::kChunks;
constexpr std::uint64_t kArena = Region::kArena;

std::uint64_t calls_of(const Trace& trace, const std::string& name) {
  std::uint64_t calls = 0;
  for (const TracePath& path : trace.paths)
    if (path.kind == PathKind::python && trace.python_functions[path.what].name == name)
      calls += path.calls;
  return calls;
}

}  // namespace

TEST_CASE("a collector counts what chunks hold, and gives them back", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.python_function("f");
  region.python_function("g");
  Collector collector(region.file(), session, {});
  std::uint64_t ticks = 2000;
  // Far more events than fit into the region.
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto index = static_cast<std::uint32_t>(round % kChunks);
    REQUIRE(region.chunk(index).state == static_cast<std::uint32_t>(r::ChunkState::free));
    region.own(index, 77, round);
    for (std::uint32_t i = 0; i < r::kEventsPerChunk; ++i) {
      REQUIRE(region.events(index)[i].ticks == 0);
      region.events(index)[i] = i % 2 == 0 && i + 1 < r::kEventsPerChunk
                                    ? Region::call(0, 500, ++ticks)
                                    : Region::ends(0, 500, ++ticks);
    }
    region.seal(index);
    const std::uint32_t freed = region.header().freed;
    CHECK(collector.drain());
    CHECK(region.header().freed == freed + 1);
  }
  CHECK(collector.progress().events == 20UL * r::kEventsPerChunk);
  collector.finish();
  const Trace trace = collector.take({});
  CHECK(calls_of(trace, "f") == 20 * (r::kEventsPerChunk - 1) / 2);
  CHECK(calls_of(trace, "g") == 0);
  CHECK(trace.paths.size() == 1);
  CHECK(trace.threads.size() == 1);
  CHECK(trace.threads[0].id == 77);
  CHECK(trace.threads[0].events.empty());
}

TEST_CASE("a chunk that is still written is read as far as it goes", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.python_function("f");
  region.own(0, 1, 0);
  Collector collector(region.file(), session, {});
  CHECK_FALSE(collector.drain());
  region.events(0)[0] = Region::call(0, 500, 2000);
  region.events(0)[2] = Region::ends(0, 500, 2100);  // The previous event is still being written.
  CHECK(collector.drain());
  CHECK(collector.progress().events == 1);
  region.events(0)[1] = Region::call(0, 400, 2050);
  CHECK(collector.drain());
  CHECK(collector.progress().events == 3);
  region.events(0)[4] = Region::call(0, 300, 2200);  // The thread died before it wrote event 3.
  collector.finish();
  const Trace trace = collector.take({});
  CHECK(calls_of(trace, "f") == 3);
}

TEST_CASE("what was lost is told, and who lost it", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.python_function("f");
  region.own(0, 5, 0);
  region.chunk(0).lost = 11;
  region.events(0)[0] = Region::call(0, 500, 2000);
  region.header().lost = 4;
  Collector collector(region.file(), session, {});
  collector.drain();
  CHECK(collector.progress().lost == 15);
  collector.finish();
  const Trace trace = collector.take({});
  REQUIRE(trace.threads.size() == 2);
  CHECK(trace.threads[0].lost == 11);
  CHECK(trace.threads[1].lost == 4);
  CHECK(trace.threads[1].id == 0);
}

TEST_CASE("a timeline keeps every event, of each thread in its order", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.python_function("f");
  for (std::uint32_t thread = 0; thread < 2; ++thread) {
    region.own(thread, thread + 1, thread);
    for (std::uint32_t i = 0; i < 10; ++i)
      region.events(thread)[i] = Region::call(0, 900 - 10 * i, 2000 + 20 * i + 10 * thread);
  }
  Collector collector(region.file(), session, {.selection = {}, .timeline = true});
  collector.drain();
  collector.finish();
  const Trace trace = collector.take({});
  REQUIRE(trace.threads.size() == 2);
  for (const ThreadRecord& thread : trace.threads) {
    REQUIRE(thread.events.size() == 10);
    for (std::size_t i = 1; i < 10; ++i) CHECK(thread.events[i].time > thread.events[i - 1].time);
  }
  CHECK(trace.paths.size() == 20);  // Ten levels on each thread.
  CHECK(trace.meta.shortfalls.empty());
}

namespace {

/// Returns events of nested Python calls, ops and records, most of which repeat earlier ones.
std::vector<r::Event> repeated_calls(std::mt19937& random) {
  const auto below = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  std::vector<r::Event> events;
  std::uint64_t ticks = 2000;
  const auto add = [&](std::uint32_t kind, std::uint32_t line, std::uint64_t slot,
                       std::uint64_t value) {
    ticks += 1 + below(50);
    events.push_back({kind, line, slot, value, ticks});
  };
  std::uint64_t sequence = 0;
  const auto op = [&](std::uint32_t record, std::uint64_t place) {
    const bool backward = below(2) == 0;
    const std::uint64_t number = backward ? ++sequence : ~std::uint64_t{0};
    const std::uint64_t where = place / 8 << 32 | 1;
    const bool strays = below(20) == 0;
    add(r::kOpBegin, strays ? below(7) : record, number, where);
    if (below(3) == 0) add(r::kCallRecord, 5, below(2) == 0 ? 0 : 350, 0);
    if (below(3) == 0) add(r::kArguments, 460, 1, 2);
    if (below(3) == 0) add(r::kPythonCall, 9, place - 40, 1);
    if (below(3) == 0) add(r::kPythonReturn, 0, place - 40, 1);
    if (!strays) add(r::kOpEnd, 4, number, where);
  };
  const std::size_t size = std::size_t{3} * r::kEventsPerChunk;
  while (events.size() < size) {
    add(r::kPythonCall, 7, 500, 0);
    op(1, 480);
    if (below(4) != 0) op(2, 480);
    if (below(30) != 0) add(r::kPythonReturn, 0, 500, 0);
  }
  events.resize(size);
  return events;
}

}  // namespace

TEST_CASE("an event that is known counts as one that is not", "[collector]") {
  std::mt19937 random(11);
  const std::vector<r::Event> events = repeated_calls(random);
  std::vector<Trace> traces;
  // For a timeline, each event is resolved.
  for (const bool timeline : {false, true}) {
    const PrivateFolder folder;
    ProbeSession session(folder.path());
    const Region region;
    region.python_function("f");
    region.python_function("g");
    for (const std::uint32_t record : {1U, 2U, 3U})
      region.op_record(record, R"({"op":"a::)" + std::to_string(record) + R"(","schema":"a"})");
    region.op_record(4, R"({"results":[]})");
    region.op_record(5, R"({"call":"b"})");
    Collector collector(region.file(), session, {.selection = {}, .timeline = timeline});
    for (std::uint32_t i = 0; i < 3; ++i) {
      region.own(i, 77, i);
      std::copy_n(events.data() + i * std::size_t{r::kEventsPerChunk}, r::kEventsPerChunk,
                  region.events(i));
      region.seal(i);
    }
    CHECK(collector.drain() == events.size());
    CHECK(collector.op_counts().size() == 3);
    collector.finish();
    traces.push_back(collector.take({}));
  }
  const std::vector<TracePath>& paths = traces[0].paths;
  REQUIRE(paths.size() > 8);
  REQUIRE(paths.size() == traces[1].paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const TracePath& path = paths[i];
    const TracePath& other = traces[1].paths[i];
    CHECK(path.parent == other.parent);
    CHECK(path.kind == other.kind);
    CHECK(path.what == other.what);
    CHECK(path.calls == other.calls);
    CHECK(path.total_time == other.total_time);
    CHECK(path.shortest_time == other.shortest_time);
    CHECK(path.longest_time == other.longest_time);
    CHECK(path.ops == other.ops);
  }
  CHECK(traces[0].statistics == traces[1].statistics);
}

TEST_CASE("a timeline ends where its memory does, and all else is counted", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.python_function("f");
  region.own(0, 1, 0);
  for (std::uint32_t i = 0; i < 20; ++i)
    region.events(0)[i] =
        i % 2 == 0 ? Region::call(0, 900, 2000 + 20 * i) : Region::ends(0, 900, 2000 + 20 * i);
  const auto budget = std::make_shared<MemoryBudget>(4096);
  Collector collector(region.file(), session,
                      {.selection = {}, .timeline = true, .memory = budget});
  collector.drain();
  collector.finish();
  const Trace trace = collector.take({});
  REQUIRE(trace.threads.size() == 1);
  const std::size_t kept = trace.threads[0].events.size();
  CHECK((kept > 0 && kept < 20));
  CHECK(trace.meta.shortfalls ==
        std::map<std::string, std::uint64_t>{{"timeline_ends", 20 - kept}});
  std::uint64_t calls = 0;
  for (const TracePath& path : trace.paths) calls += path.calls;
  CHECK(calls == 10);
}

TEST_CASE("the selection stops the recording once it has what it wants", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  region.op_record(1, R"({"op": "aten::add.Tensor"})");
  Collector collector(region.file(), session, {.selection = {.count = 1}});
  collector.drain();
  CHECK(region.header().stop == 0);
  CHECK(collector.ops() == std::vector<std::string>{"aten::add.Tensor"});
}

TEST_CASE("what another process wrote into a region breaks nothing", "[collector]") {
  std::mt19937 random(2024);
  const auto below = [&](std::size_t limit) {
    return std::uniform_int_distribution<std::size_t>(0, limit - 1)(random);
  };
  const PrivateFolder folder;
  std::size_t refused = 0;
  std::size_t read = 0;
  for (int turn = 0; turn < 400; ++turn) {
    const Region region;
    region.python_function("f");
    region.op_record(0, "{}");
    region.op_record(1, R"({"op": "aten::add.Tensor"})");
    for (std::uint32_t index = 0; index < kChunks; ++index) {
      region.own(index, 1 + index / 2, index);
      for (std::uint32_t i = 0; i < 40; ++i) {
        r::Event& event = region.events(index)[i];
        const auto kind = static_cast<std::uint32_t>(below(12));
        event = {r::kFirstPythonEvent + kind, static_cast<std::uint32_t>(below(3)), below(2000),
                 below(3), 2000 + 10 * i + below(30)};
        if (below(4) == 0) event.id = static_cast<std::uint32_t>(below(5));
      }
      if (index % 2 == 0) region.seal(index);
    }
    // Overwrites one to eight words of the header, the arena, the chunk headers and the events.
    for (std::size_t n = 1 + below(8); n > 0; --n) {
      const std::size_t places[] = {
          below(sizeof(r::RegionHeader) - r::kMaxPlanPathLength), r::kChunkSize + below(400),
          r::kChunkSize + kArena + below(kChunks) * r::kChunkSize + below(2000)};
      const std::size_t at = places[below(3)];
      const std::uint32_t values[] = {0, 1, 0x7FFFFFFF, 0xFFFFFFFF,
                                      static_cast<std::uint32_t>(random())};
      std::memcpy(region.bytes() + at, &values[below(5)], sizeof(std::uint32_t));
    }
    ProbeSession session(folder.path());
    try {
      Collector collector(region.file(), session, {.selection = {}, .timeline = turn % 2 == 0});
      for (int i = 0; i < 3; ++i) collector.drain();
      collector.finish();
      const Trace trace = collector.take({});
      for (const TracePath& path : trace.paths) {
        if (path.kind == PathKind::python) REQUIRE(path.what < trace.python_functions.size());
        REQUIRE(path.thread < trace.threads.size());
      }
      ++read;
    } catch (const Error& error) {
      CHECK(error.status() == ExitStatus::failed);
      ++refused;
    }
  }
  CHECK(refused > 20);
  CHECK(read > 20);
}

TEST_CASE("an initial stack that does not end with a frame is refused", "[collector]") {
  const PrivateFolder folder;
  ProbeSession session(folder.path());
  const Region region;
  const std::string head = Region::bytes_of(r::InitialStack{.thread = 1, .count = 1});
  region.section(r::SectionKind::initial_stack, head + std::string(sizeof(r::InitialFrame), 'f'));
  Collector collector(region.file(), session, {});
  collector.drain();
  region.section(r::SectionKind::initial_stack,
                 head + std::string(sizeof(r::InitialFrame) + 23, 'f'));
  CHECK_THROWS_AS(collector.drain(), Error);
}
