#include "report/job/trace_merge.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "report/job/call_patterns.h"
#include "report/job/merged_processes.h"
#include "report/merge/merge.h"
#include "report/summary/memory_usage.h"
#include "tests/unit/report/frame_details.h"
#include "tracer/trace/trace.h"

using namespace optrace;

namespace {

TraceFunction native(std::uint64_t address, const std::string& symbol) {
  TraceFunction function;
  function.module = 0;
  function.address = address;
  function.symbol = symbol;
  function.probed = true;
  return function;
}

/// A trace of a rank: `main` calls `work` as often as told and, if `more` is named, that too.
Trace trace_of(std::uint64_t rank, std::uint64_t calls, const std::string& more = {}) {
  Trace trace;
  trace.meta.torch.version = "2.6.0";
  trace.meta.torch.git_version = "2236df17";
  trace.meta.device = "cpu";
  trace.meta.warnings = {"rank " + std::to_string(rank % 2)};
  trace.meta.shortfalls = {{"texts_lost", 1}};
  trace.meta.process = {1000 + rank, rank};
  trace.modules = {{"/lib/libtorch_cpu.so", "abc"}};
  trace.threads.emplace_back().id = 500 + rank;
  trace.threads[0].lost = 1;
  // Tables are in another order in each trace.
  trace.python_functions = {{"main", "/train.py", 1}};
  trace.python_functions.insert(
      rank % 2 == 0 ? trace.python_functions.end() : trace.python_functions.begin(),
      {"unused", "/train.py", 9});
  const std::uint32_t main = rank % 2 == 0 ? 0 : 1;
  trace.functions.resize(more.empty() ? 1 : 2);
  trace.functions.back() = native(16, "work");
  const auto work = static_cast<std::uint32_t>(trace.functions.size() - 1);
  trace.op_records = {R"({"key_names": {}})",
                      R"({"op": "aten::add", "n": )" + std::to_string(rank) + "}"};
  trace.paths.push_back({.kind = PathKind::python,
                         .what = main,
                         .calls = 1,
                         .total_time = 100 + rank,
                         .shortest_time = 100 + rank,
                         .longest_time = 100 + rank});
  if (!more.empty()) {
    trace.functions[0] = native(32, more);
    trace.paths.push_back({.parent = 0, .what = 0, .line = 4, .calls = 1});
  }
  trace.paths.push_back({.parent = 0,
                         .what = work,
                         .line = 3,
                         .calls = calls,
                         .ops = {{.record = 1, .results = 0, .calls = calls}}});
  trace.statistics.entries = calls;
  return trace;
}

Trace merged(const std::vector<const Trace*>& traces) {
  TraceMerge merge;
  for (const Trace* const trace : traces) merge.add(*trace);
  return merge.take();
}

std::string bytes_of(const Trace& trace) {
  const PrivateFolder folder;
  write_trace(trace, folder.path() / "trace");
  std::ifstream file(folder.path() / "trace", std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("traces can be merged in any order and grouping", "[trace_merge]") {
  constexpr std::uint64_t kRanks = 24;
  std::vector<Trace> traces;
  traces.reserve(kRanks);
  for (std::uint64_t rank = 0; rank < kRanks; ++rank)
    traces.push_back(trace_of(rank, 10 + rank % 7, rank % 5 == 3 ? "extra" : ""));
  std::vector<const Trace*> all;
  all.reserve(kRanks);
  for (const Trace& trace : traces) all.push_back(&trace);
  const std::string expected = bytes_of(merged(all));
  std::mt19937 random(1);  // NOLINT(cert-msc51-cpp): The same in each run.
  for (int round = 0; round < 30; ++round) {
    std::vector<Trace> groups = {};
    std::vector<const Trace*> left = all;
    std::ranges::shuffle(left, random);
    while (!left.empty()) {
      const std::size_t size = 1 + random() % left.size();
      groups.push_back(merged({left.end() - static_cast<std::ptrdiff_t>(size), left.end()}));
      left.resize(left.size() - size);
    }
    while (groups.size() > 1) {
      std::ranges::shuffle(groups, random);
      Trace sum = merged({&groups[groups.size() - 1], &groups[groups.size() - 2]});
      groups.resize(groups.size() - 2);
      groups.push_back(std::move(sum));
    }
    CHECK(bytes_of(merged({&groups[0]})) == expected);
  }
}

TEST_CASE("a merged trace has the sums of its traces", "[trace_merge]") {
  const Trace first = trace_of(0, 10);
  const Trace second = trace_of(1, 12, "extra");
  const Trace sum = merged({&second, &first});
  REQUIRE(sum.paths.size() == 3);
  CHECK(sum.paths[0].total_time == 201);
  CHECK(sum.paths[0].shortest_time == 100);
  CHECK(sum.paths[0].longest_time == 101);
  CHECK(sum.functions[sum.paths[1].what].symbol == "work");  // As rank 0 called it.
  CHECK(sum.paths[1].calls == 22);
  CHECK(sum.paths[1].ops.size() == 2);
  CHECK(sum.statistics.entries == 22);
  CHECK(sum.meta.shortfalls.at("texts_lost") == 2);
  CHECK(sum.meta.warnings.size() == 2);
  CHECK(sum.threads[0].lost == 2);

  const Report report = merge(sum, nullptr, {.all = true});
  CHECK(report.processes.size() == 2);
  CHECK(report.threads == 2);
  REQUIRE(report.roots.size() == 1);
  REQUIRE(report.roots[0].children.size() == 2);
  const Frame& work = report.roots[0].children[0];
  CHECK(work.calls == 22);
  CHECK(written_detail(work)["calls_by_rank"] ==
        nlohmann::json::array({{{"calls", 12}, {"ranks", nlohmann::json::array({1})}}}));
  CHECK(written_detail(report.roots[0].children[1])["ranks"] == nlohmann::json::array({1}));
  CHECK(report.recording.differences ==
        std::vector<std::string>{"only rank 1 took extra under main",
                                 "work under main: rank 1 took it 12 times, the others 10 times"});
}

TEST_CASE("new tensors of processes are counted on their own devices", "[trace_merge]") {
  const auto trace_on = [](std::uint64_t rank) {
    Trace trace = trace_of(rank, 3);
    trace.op_records = {
        R"({"key_names": {}})", R"({"op": "aten::rand", "schema": "", "arguments": []})",
        R"({"results": [{"relation": "fresh", "tensor": {"shape": [2], "strides": [1],
            "dtype": "float32", "device": "cuda:)" +
            std::to_string(rank) + R"("}}]})"};
    trace.paths[1].kind = PathKind::op;
    trace.paths[1].what = 1;
    trace.paths[1].ops = {{.record = 1, .results = 2, .calls = 3}};
    return trace;
  };
  const Trace first = trace_on(0);
  const Trace second = trace_on(1);
  const Report report = merge(merged({&first, &second}), nullptr, {.all = true});
  CHECK(new_tensors(report) == std::vector<NewTensors>{{"cuda:0", 3, 24}, {"cuda:1", 3, 24}});
}

TEST_CASE("processes without a rank are none of a job's ranks", "[trace_merge]") {
  const Trace first = trace_of(0, 10);
  const Trace second = trace_of(1, 10);
  Trace launcher = trace_of(2, 1);
  launcher.meta.process.rank.reset();
  launcher.paths.resize(1);
  const Report report = merge(merged({&first, &second, &launcher}), nullptr, {.all = true});
  const Frame& work = report.roots.at(0).children.at(0);
  CHECK(work.detail->processes.empty());
  CHECK(report.recording.differences.empty());
}

TEST_CASE("traces that don't belong together are refused", "[trace_merge]") {
  const Trace first = trace_of(0, 10);
  Trace other = trace_of(1, 10);
  CHECK_THROWS_WITH(merged({&first, &first}),
                    Catch::Contains("the trace of rank 0 is given twice"));
  other.meta.torch.version = "2.7.0";
  CHECK_THROWS_WITH(merged({&first, &other}), Catch::Contains("different versions of torch"));
  other = trace_of(1, 10);
  other.op_records[0] = R"({"key_names": {"backends": 1}})";
  CHECK_THROWS_WITH(merged({&first, &other}), Catch::Contains("different dispatch keys"));
}

TEST_CASE("corrupt metadata of a merged trace is refused", "[trace_merge]") {
  const Trace first = trace_of(0, 10);
  const Trace second = trace_of(1, 12);
  const Trace sum = merged({&first, &second});
  REQUIRE(read_merged_processes(sum));
  const auto refused = [&](const char* pointer, const nlohmann::json& value) {
    Trace broken = sum;
    auto merged = nlohmann::json::parse(sum.meta.merged);
    merged[nlohmann::json::json_pointer(pointer)] = value;
    broken.meta.merged = merged.dump();
    CHECK_THROWS_WITH(read_merged_processes(broken), Catch::Contains("is corrupt"));
  };
  refused("/processes", nlohmann::json::array());
  refused("/processes/0/rank", 7);
  refused("/processes/0/digest", "x");
  refused("/patterns", 1);
  refused("/patterns/0/0", nlohmann::json::array({10, 10, 1, 0}));
  refused("/patterns/0/0", nlohmann::json::array({10, 10, 0, 9}));
  refused("/patterns/0/0", nlohmann::json::array({10, 10, 0, 1}));
  refused("/patterns/0/0/0", -1);
  refused("/paths", nlohmann::json::array({1}));
  refused("/paths", nlohmann::json::array({1, 5}));
  refused("/paths", nlohmann::json::array({9, 0}));
}

TEST_CASE("many different numbers of calls become a range", "[trace_merge]") {
  CallPatterns patterns;
  std::uint32_t sum = patterns.add({});
  for (std::uint32_t process = 0; process < 4; ++process)
    sum = patterns.sum(sum, patterns.add_uniform(patterns.add_set({{process, process}}), process));
  CHECK(patterns[sum].size() == 4);
  sum = patterns.sum(sum, patterns.add_uniform(patterns.add_set({{4, 4}}), 4));
  REQUIRE(patterns[sum].size() == 1);
  CHECK(patterns[sum][0].least == 0);
  CHECK(patterns[sum][0].most == 4);
  CHECK(patterns.set(patterns[sum][0].processes) == ProcessSet{{0, 4}});
  CHECK(patterns.participants(sum) == patterns.add_set({{0, 4}}));
}
