#include "tracer/collect/path_counter.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/text/joined.h"
#include "tests/unit/trace_builder.h"
#include "tracer/collect/timeline_paths.h"
#include "tracer/trace/recording.h"

using namespace optrace;

namespace {

constexpr const char* kAddCall = "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE";
constexpr const char* kMulCall = "_ZN2at4_ops10mul_Tensor4callERKNS_6TensorES4_";
constexpr const char* kLoop = "_PyEval_EvalFrameDefault";

// Returns a line such as `a > b > c x2` for each path that has no other below it.
std::vector<std::string> leaves(const Trace& trace) {
  const auto name = [&](const TracePath& path) {
    switch (path.kind) {
      case PathKind::python:
        return trace.python_functions[path.what].name;
      case PathKind::node:
        return "node " + std::to_string(path.what);
      case PathKind::op:
        return "op " + std::to_string(path.what);
      default:
        return trace.functions[path.what].symbol;
    }
  };
  std::vector<std::string> lines;
  for (std::uint32_t i = 0; i < trace.paths.size(); ++i) {
    const bool inner =
        std::ranges::any_of(trace.paths, [&](const TracePath& other) { return other.parent == i; });
    if (inner) continue;
    std::vector<std::string> names;
    for (std::uint32_t at = i; at != kNone; at = trace.paths[at].parent)
      names.insert(names.begin(), name(trace.paths[at]));
    lines.push_back(fmt::format("{} x{}", joined(names, " > "), trace.paths[i].calls));
  }
  return lines;
}

using Leaves = std::vector<std::string>;

void at_time(TraceBuilder& t, std::uint64_t time) {
  t.trace.threads[0].events.back().time = time;
}

void note(ThreadRecord& thread, EventKind kind, std::uint32_t record, std::uint64_t number,
          std::uint64_t of_thread, std::uint64_t time = 0) {
  thread.events.push_back({.kind = kind,
                           .what = record,
                           .stack_pointer = number,
                           .return_address = of_thread,
                           .time = time});
}

constexpr std::uint64_t kNoSequence = ~std::uint64_t{0};

}  // namespace

TEST_CASE("a path that is taken again is counted, with its times", "[path_counter]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b");
  for (const std::uint64_t start : {100U, 200U, 400U}) {
    t.enter(a, kNone, 1000);
    at_time(t, start);
    t.enter(b, a, 900);
    at_time(t, start + 10);
  }
  count_paths(t.trace, {});
  CHECK(leaves(t.trace) == Leaves{"a > b x3"});
  const TracePath& path = t.trace.paths[0];
  CHECK(path.calls == 3);
  // A call ends with the next event outside of it: 100, 200; the last with the recording: 10.
  CHECK(path.total_time == 100 + 200 + 10);
  CHECK(path.shortest_time == 10);
  CHECK(path.longest_time == 200);
  CHECK(t.trace.statistics.entries == 6);
  CHECK(t.trace.statistics.roots == 3);
}

TEST_CASE("calls by a function with debug info are told apart by their address", "[path_counter]") {
  for (const bool debug_info : {true, false}) {
    TraceBuilder t;
    t.trace.modules[0].debug_info = debug_info;
    const auto a = t.function("a"), b = t.function("b"), c = t.function("c");
    t.trace.functions[a].address = 700;
    t.trace.functions[a].tail_calls = {c};
    for (int i = 0; i < 3; ++i) {
      t.enter(a, kNone, 1000);
      t.enter(b, a, 900, 4);
      t.enter(b, a, 900, 8);
    }
    t.enter(c, kNone, 1000);  // By a tail call of `a`, which has no address.
    count_paths(t.trace, {});
    CHECK(leaves(t.trace) == (debug_info ? Leaves{"a > b x3", "a > b x3", "a > c x1"}
                                         : Leaves{"a > b x6", "a > c x1"}));
    std::vector<std::uint32_t> offsets;
    offsets.reserve(t.trace.paths.size());
    for (const TracePath& path : t.trace.paths) offsets.push_back(path.call_offset);
    CHECK(offsets == (debug_info ? std::vector<std::uint32_t>{0, 304, 308, 0}
                                 : std::vector<std::uint32_t>{0, 0, 0}));
  }
}

TEST_CASE("a cached transition changes no path", "[path_counter]") {
  // Repeats calls, with recursion, tail calls and exceptions among them. The path of each call must
  // be the one that the rules alone give.
  TraceBuilder t;
  std::vector<std::uint32_t> functions;
  for (const char* name : {"a", "b", "c", "d"}) functions.push_back(t.function(name));
  t.trace.functions[0].tail_calls = {1};
  t.trace.functions[2].enters_itself = true;
  std::uint64_t random = 7;
  const auto below = [&random](std::uint64_t limit) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return (random >> 33) % limit;
  };
  for (int i = 0; i < 20'000; ++i) {
    const auto caller = functions[below(4)];
    t.enter(functions[below(4)], below(8) == 0 ? kNone : caller, 1000 - 10 * below(12), below(2));
  }
  const Trace timeline = t.trace;
  count_paths(t.trace, {});
  const TraceCallTreeFunctions known(timeline);
  const CallTree tree(timeline, known, timeline.threads[0]);
  std::map<std::string, std::uint64_t> wanted, counted;
  for (std::uint32_t i = 0; i < tree.nodes().size(); ++i) {
    std::string path;
    for (std::uint32_t at = i; at != kNone; at = tree.nodes()[at].shown_under)
      path += (tree.nodes()[at].tail_call ? "!" : "/") + std::to_string(tree.nodes()[at].what);
    ++wanted[path];
  }
  for (std::uint32_t i = 0; i < t.trace.paths.size(); ++i) {
    std::string path;
    for (std::uint32_t at = i; at != kNone; at = t.trace.paths[at].parent)
      path += (t.trace.paths[at].tail_call ? "!" : "/") + std::to_string(t.trace.paths[at].what);
    counted[path] += t.trace.paths[i].calls;
  }
  CHECK(wanted.size() > 100);
  CHECK(counted == wanted);
  CHECK(t.trace.statistics == tree.statistics());
}

namespace {

// Returns how often each function was entered, on any path.
std::map<std::uint32_t, std::uint64_t> calls_by_function(const Trace& trace) {
  std::map<std::uint32_t, std::uint64_t> calls;
  for (const TracePath& path : trace.paths)
    if (path.kind == PathKind::function && path.calls != 0) calls[path.what] += path.calls;
  return calls;
}

// Returns the number of calls below "..." paths.
std::uint64_t merged_calls(const Trace& trace) {
  std::uint64_t calls = 0;
  for (const TracePath& path : trace.paths)
    if (path.parent != kNone && trace.paths[path.parent].kind == PathKind::merged)
      calls += path.calls;
  return calls;
}

// Returns a trace of random calls among six functions, up to thirty levels deep.
Trace varied_calls() {
  TraceBuilder t;
  std::uint64_t random = 11;
  const auto below = [&random](std::uint64_t limit) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return static_cast<std::uint32_t>((random >> 33) % limit);
  };
  for (const char* name : {"a", "b", "c", "d", "e", kAddCall}) t.function(name);
  std::vector<std::uint32_t> live;
  for (int i = 0; i < 20'000; ++i) {
    live.resize(std::min<std::size_t>(live.size(), below(30)));
    const std::uint32_t function = below(6);
    t.enter(function, live.empty() ? kNone : live.back(), 5000 - 10 * live.size(), live.size());
    live.push_back(function);
  }
  return std::move(t.trace);
}

}  // namespace

TEST_CASE("paths beyond the budget are counted by their functions", "[path_counter]") {
  Trace whole = varied_calls();
  count_paths(whole, {});
  REQUIRE(whole.paths.size() > 5000);
  CHECK(whole.meta.shortfalls.empty());

  for (const std::size_t bytes : {std::size_t{1'000'000}, std::size_t{3'000'000}}) {
    Trace small = varied_calls();
    count_paths(small, {}, std::make_shared<MemoryBudget>(bytes));
    INFO(small.paths.size());
    CHECK(small.paths.size() < bytes / 1000);
    CHECK(calls_by_function(small) == calls_by_function(whole));
    CHECK(small.meta.shortfalls ==
          std::map<std::string, std::uint64_t>{{"paths_merged", merged_calls(small)}});
    for (std::size_t i = 0; i < small.paths.size(); ++i) {
      const TracePath& path = small.paths[i];
      CHECK((path.parent == kNone || path.parent < i));
      if (path.kind == PathKind::merged) CHECK((path.what == kNone && path.calls != 0));
    }
  }

  // The counts of a selection don't depend on the memory.
  for (const std::size_t bytes : {std::size_t{1} << 30, std::size_t{1'000'000}}) {
    Trace selected = varied_calls();
    count_paths(selected, {.ops = "add*", .skip = 100, .count = 300},
                std::make_shared<MemoryBudget>(bytes));
    static const auto expected = calls_by_function(selected);
    CHECK(expected.at(5) >= 300);
    CHECK(calls_by_function(selected) == expected);
  }

  // Without any memory there is only a "..." path, and its calls are reported as unnamed.
  Trace none = varied_calls();
  count_paths(none, {}, std::make_shared<MemoryBudget>(0));
  CHECK(none.paths.size() <= 2);
  CHECK(none.meta.shortfalls == std::map<std::string, std::uint64_t>{{"calls_unnamed", 20'000}});
}

TEST_CASE("recursion without end has an end in the trace", "[path_counter]") {
  TraceBuilder t;
  const auto f = t.function("f"), g = t.function("g");
  constexpr std::uint64_t kDeep = 15'000;
  for (std::uint64_t i = 0; i < kDeep; ++i)
    t.enter(i % 2 == 0 ? f : g, i == 0 ? kNone : i % 2 == 0 ? g : f, 1'000'000 - 10 * i);
  count_paths(t.trace, {});
  CHECK(t.trace.paths.size() > 10'000);
  CHECK(t.trace.paths.size() < 10'010);
  CHECK(calls_by_function(t.trace) ==
        std::map<std::uint32_t, std::uint64_t>{{f, kDeep / 2}, {g, kDeep / 2}});
  CHECK(merged_calls(t.trace) > 4'900);
}

TEST_CASE("a selection of ops keeps what they do and what leads there", "[path_counter]") {
  TraceBuilder t;
  const auto loop = t.function(kLoop), add = t.function(kAddCall), mul = t.function(kMulCall),
             kernel = t.function("kernel"), other = t.function("other");
  const auto main = t.python("main.run");
  t.live_at_start(loop, 2000);
  t.python_event(EventKind::python_call, main, 1900, 3);
  for (int i = 0; i < 5; ++i) {
    t.enter(add, loop, 1000);
    t.enter(kernel, add, 900);
    t.enter(mul, loop, 1000, 1);
    t.enter(other, mul, 900);
    t.enter(add, other, 800);  // Inside an op that is not selected.
  }
  const auto selected = [&](const TraceSelection& selection) {
    Trace trace = t.trace;
    count_paths(trace, selection);
    return leaves(trace);
  };
  const std::string run = std::string(kLoop) + " > main.run > ";
  const std::string add_alone = run + kAddCall + " > kernel x";
  const std::string add_inside = run + kMulCall + " > other > " + kAddCall + " x";
  CHECK(selected({.ops = "aten::add*"}) == Leaves{add_alone + "5", add_inside + "5"});
  CHECK(selected({.ops = "add.Tensor"}) == Leaves{add_alone + "5", add_inside + "5"});
  CHECK(selected({.ops = "mul_*"}) == Leaves{add_inside + "5"});
  CHECK(selected({.ops = "prims::*"}).empty());
  CHECK(selected({.ops = "*.Tensor", .skip = 2, .count = 3}) ==
        Leaves{add_alone + "2", add_inside + "1"});
  CHECK(selected({.from_module = "main"}).size() == 2);
  CHECK(selected({.from_module = "mai"}).empty());
}

TEST_CASE("optrace's own libraries are told by their names and their folder", "[path_counter]") {
  CHECK(is_own_library("/x/liboptrace_agent.so"));
  CHECK(is_own_library("liboptrace_device.so"));
  CHECK(is_own_library("/x/cache/optrace/emulated-devices/0a/libnccl.so.2"));
  CHECK_FALSE(is_own_library("/x/nvidia/nccl/lib/libnccl.so.2"));
  CHECK_FALSE(is_own_library("/x/emulated-devices"));
  CHECK_FALSE(is_own_library("/x/emulated-devices-of-mine/libnccl.so.2"));
  CHECK_FALSE(is_own_library("/x/not-emulated-devices/libnccl.so.2"));
  CHECK_FALSE(is_own_library(""));
}

TEST_CASE("ops' records and arguments hang on the step that they are of", "[path_counter]") {
  TraceBuilder t;
  const auto add = t.function(kAddCall), inner = t.function("kernel"),
             redispatch = t.function(
                 "_ZN2at4_ops10add_Tensor10redispatchEN3c1014DispatchKeySetERKNS_6TensorE");
  t.trace.op_records = {"{}", R"({"op": "aten::add.Tensor"})", R"({"results": []})",
                        R"({"op": "MyFunction"})"};
  ThreadRecord& thread = t.trace.threads[0];
  for (int i = 0; i < 20; ++i) {
    t.enter(add, kNone, 1000);
    note(thread, EventKind::op_begin, 1, kNoSequence, 1);
    t.enter(redispatch, add, 900);
    // rdi is the address of the result, which differs each time; rsi is the key set.
    thread.events.push_back({.kind = EventKind::arguments,
                             .what = 0,
                             .line = 900,
                             .stack_pointer = 0x7ffd00 + static_cast<std::uint64_t>(i),
                             .return_address = 0x8001});
    t.enter(inner, redispatch, 800);
    note(thread, EventKind::op_begin, 3, kNoSequence, 1);  // Not dispatched: the caller's record.
    note(thread, EventKind::op_end, 0, kNoSequence, 1);
    note(thread, EventKind::op_end, 2, kNoSequence, 1);
  }
  count_paths(t.trace, {});
  REQUIRE(t.trace.paths.size() == 3);
  CHECK(t.trace.paths[0].ops == std::vector<OpCallCount>{{1, 2, 20}});
  CHECK(t.trace.paths[1].arguments.size() == 1);
  CHECK(t.trace.paths[1].arguments[0].calls == 20);
  CHECK(t.trace.paths[1].arguments[0].second == 0x8001);
  CHECK(t.trace.paths[2].ops == std::vector<OpCallCount>{{3, 0, 20}});
}

namespace {

// Returns the number of thread 1's RecordFunction at this stack address.
constexpr std::uint64_t at_place(std::uint64_t place) {
  return place / 8 << 32 | 1;
}

constexpr const char* kCallBoxed =
    "_ZNK3c1010Dispatcher9callBoxedERKNS_14OperatorHandleEPSt6vectorINS_6IValueESaIS5_EE";

std::vector<std::string> op_records(std::initializer_list<const char*> names) {
  std::vector<std::string> records = {"{}"};
  for (const std::string name : names)
    records.push_back(R"({"op": ")" + name + R"x(", "schema": "f() -> ()"})x");
  return records;
}

}  // namespace

TEST_CASE("ops that are called boxed are told apart, whatever their caller", "[path_counter]") {
  TraceBuilder t;
  const auto interpreter = t.function("interpreter"), boxed = t.function(kCallBoxed),
             callbacks = t.function("callbacks"), sigmoid = t.function("sigmoid"),
             mm = t.function("mm");
  t.trace.op_records = op_records({"aten::sigmoid", "aten::mm"});
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(interpreter, kNone, 2000);
  for (int i = 0; i < 4; ++i) {
    for (const auto& [kernel, record] : {std::pair(sigmoid, 1U), std::pair(mm, 2U)}) {
      t.enter(boxed, interpreter, 1000);
      t.enter(callbacks, boxed, 800);  // Returns before the record is made.
      note(thread, EventKind::op_begin, record, kNoSequence, at_place(904));
      t.enter(kernel, kNone, 700);  // The caller is unknown, which doesn't matter inside an op.
      note(thread, EventKind::op_end, 0, kNoSequence, at_place(904));
    }
    t.enter(boxed, interpreter, 1000);  // An op that is not observed.
    t.enter(mm, boxed, 700);
  }
  count_paths(t.trace, {});
  const std::string call = "interpreter > " + std::string(kCallBoxed) + " > ";
  CHECK(leaves(t.trace) == Leaves{call + "callbacks x8", call + "op 1 > sigmoid x4",
                                  call + "op 2 > mm x4", call + "mm x4"});
  for (const TracePath& path : t.trace.paths)
    if (path.kind == PathKind::op) CHECK(path.ops == std::vector<OpCallCount>{{path.what, 0, 4}});
}

TEST_CASE("an op without a step of its own is a frame where its record is made, until it ends",
          "[path_counter]") {
  TraceBuilder t;
  const auto outer = t.function("outer"), before = t.function("before"),
             slow = t.function("_ZN3c1010Dispatcher27callWithDispatchKeySlowPathIvJEEE"),
             kernel = t.function("kernel"), after = t.function("after"), add = t.function(kAddCall);
  t.trace.op_records = op_records({"c10d::allreduce_", "aten::add.Tensor", "my::add.Tensor"});
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(outer, kNone, 2000);
  t.enter(before, outer, 1500);  // Returns before the op begins.
  note(thread, EventKind::op_begin, 1, kNoSequence, at_place(1800));
  t.enter(kernel, outer, 1000);
  note(thread, EventKind::op_end, 0, kNoSequence, at_place(1800));
  t.enter(after, outer, 1000);
  // A step of at::_ops enters one op: its own.
  t.enter(add, outer, 1500);
  t.enter(slow, add, 1400);
  note(thread, EventKind::op_begin, 2, kNoSequence, at_place(1304));
  t.enter(kernel, slow, 1000);
  note(thread, EventKind::op_begin, 3, kNoSequence, at_place(1304 - 512));
  t.enter(after, kNone, 500);
  // The op's end is lost: a function that is entered above its frame is outside of it.
  t.enter(after, outer, 1500);
  count_paths(t.trace, {});
  const std::string in_add = "outer > " + std::string(kAddCall) + " > ";
  CHECK(leaves(t.trace) ==
        Leaves{"outer > before x1", "outer > op 1 > kernel x1", "outer > after x2",
               in_add + "_ZN3c1010Dispatcher27callWithDispatchKeySlowPathIvJEEE > kernel > op 3 > "
                        "after x1"});
  for (const TracePath& path : t.trace.paths) {
    if (path.kind == PathKind::function && path.what == add)
      CHECK(path.ops == std::vector<OpCallCount>{{2, 0, 1}});
    if (path.kind == PathKind::op && path.what == 3)
      CHECK(path.ops == std::vector<OpCallCount>{{3, 0, 1}});
  }
}

TEST_CASE("ops with frames of their own are selected by name", "[path_counter]") {
  TraceBuilder t;
  const auto boxed = t.function(kCallBoxed), kernel = t.function("kernel");
  t.trace.op_records = op_records({"aten::sigmoid", "my::mm"});
  for (const std::uint32_t record : {1U, 2U, 1U}) {
    t.enter(boxed, kNone, 1000);
    note(t.trace.threads[0], EventKind::op_begin, record, kNoSequence, at_place(904));
    t.enter(kernel, boxed, 700);
    note(t.trace.threads[0], EventKind::op_end, 0, kNoSequence, at_place(904));
  }
  const auto selected = [&](const TraceSelection& selection) {
    Trace trace = t.trace;
    count_paths(trace, selection);
    return leaves(trace);
  };
  const std::string call = std::string(kCallBoxed) + " > op ";
  CHECK(selected({.ops = "my::*"}) == Leaves{call + "2 > kernel x1"});
  CHECK(selected({.ops = "sigmoid"}) == Leaves{call + "1 > kernel x2"});
  CHECK(selected({.ops = "aten::mm"}).empty());
  CHECK(selected({.count = 2}) == Leaves{call + "1 > kernel x1", call + "2 > kernel x1"});
}

TEST_CASE("a cached transition changes no op", "[path_counter]") {
  // Compares the rules alone with cached outcomes, on nested ops of all kinds, some of whose ends
  // are lost.
  TraceBuilder t;
  const auto boxed = t.function(kCallBoxed), add = t.function(kAddCall),
             kernel = t.function("kernel");
  t.trace.op_records = op_records({"aten::sigmoid", "aten::add.Tensor", "my::mm"});
  t.trace.op_records.emplace_back(R"({"op": "MyFunction", "schema": null})");
  ThreadRecord& thread = t.trace.threads[0];
  std::uint64_t random = 7;
  const auto below = [&random](std::uint64_t limit) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    return (random >> 33) % limit;
  };
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t slot = 100'000 - 100 * below(8);
    const std::uint32_t functions[] = {boxed, add, kernel};
    t.enter(functions[below(3)], below(3) == 0 ? kNone : functions[below(3)], slot);
    if (below(2) == 0)
      note(thread, EventKind::op_begin, static_cast<std::uint32_t>(below(5)), kNoSequence,
           below(9) == 0 ? 1 : at_place(slot - 8 * below(20)));
    if (below(3) == 0)
      note(thread, EventKind::op_end, 0, kNoSequence,
           below(9) == 0 ? 1 : at_place(slot - 8 * below(20)));
  }
  const Trace timeline = t.trace;
  count_paths(t.trace, {});
  const TraceCallTreeFunctions known(timeline);
  const CallTree tree(timeline, known, timeline.threads[0]);
  const auto paths = [](const auto& nodes, auto above, auto calls) {
    std::map<std::string, std::uint64_t> counted;
    for (std::uint32_t i = 0; i < nodes.size(); ++i) {
      std::string path;
      for (std::uint32_t at = i; at != kNone; at = above(nodes[at]))
        path += (nodes[at].kind == PathKind::op ? "#" : "/") + std::to_string(nodes[at].what);
      counted[path] += calls(nodes[i]);
    }
    return counted;
  };
  const auto wanted = paths(
      tree.nodes(), [](const CallTree::Node& node) { return node.shown_under; },
      [](const CallTree::Node&) { return std::uint64_t{1}; });
  CHECK(wanted.size() > 100);
  CHECK(paths(
            t.trace.paths, [](const TracePath& path) { return path.parent; },
            [](const TracePath& path) { return path.calls; }) == wanted);
}

TEST_CASE("what a library was asked for hangs on the function that was entered last",
          "[path_counter]") {
  TraceBuilder t;
  const auto kernel = t.function("kernel"), library = t.function("cudnnBackendExecute");
  t.trace.op_records = {"{}", R"({"call": "cudnnBackendExecute", "kind": "library"})"};
  ThreadRecord& thread = t.trace.threads[0];
  note(thread, EventKind::call_record, 1, 0, 0);  // Belongs to a function entered before recording.
  for (int i = 0; i < 3; ++i) {
    t.enter(kernel, kNone, 1000);
    t.enter(library, kernel, 900);
    note(thread, EventKind::call_record, i == 2 ? 0 : 1, 0, 0);
  }
  count_paths(t.trace, {});
  REQUIRE(t.trace.paths.size() == 2);
  CHECK(t.trace.paths[0].ops.empty());
  CHECK(t.trace.paths[1].ops == std::vector<OpCallCount>{{1, 0, 2}, {0, 0, 1}});
  CHECK(t.trace.statistics.entries == 6);
}

TEST_CASE("a library call at the end of an op hangs on the function that made it",
          "[path_counter]") {
  TraceBuilder t;
  const auto kernel = t.function("kernel"), library = t.function("dnnl_primitive_execute");
  t.trace.op_records = {"{}", R"({"op": "aten::relu"})", R"({"call": "rnn", "kind": "library"})"};
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(kernel, kNone, 1000);
  note(thread, EventKind::op_begin, 1, kNoSequence, at_place(904));
  t.enter(library, kernel, 800);
  note(thread, EventKind::call_record, 2, 700, 0);
  note(thread, EventKind::op_end, 0, kNoSequence, at_place(904));
  count_paths(t.trace, {});
  for (const TracePath& path : t.trace.paths) {
    const bool made_it = path.kind == PathKind::function && path.what == library;
    CHECK(std::ranges::count(path.ops, OpCallCount{2, 0, 1}) == (made_it ? 1 : 0));
  }
}

TEST_CASE("what a device did hangs on the function that asked for it", "[path_counter]") {
  TraceBuilder t;
  const auto kernel = t.function("kernel"), shape = t.function("shape"),
             launch = t.function("launch");
  t.trace.op_records = {"{}", R"({"kind": "kernel"})", R"({"kind": "copy"})"};
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(kernel, kNone, 1000);
  t.enter(shape, kernel, 900);  // Has returned when the device call at 950 is made.
  note(thread, EventKind::device_call, 0, 950, 7);
  t.enter(launch, kernel, 900);
  note(thread, EventKind::device_call, 0, 800, 8);
  // Activities arrive later, as CUPTI delivers them: on a thread of its own, in any order.
  ThreadRecord& cupti = t.trace.threads.emplace_back();
  cupti.id = 2;
  const auto done = [&](std::uint32_t record, std::uint64_t call, std::uint64_t took) {
    const auto packed =
        recording::pack_activity({static_cast<std::uint32_t>(call), took, 0x123456789ABCDE});
    CHECK(recording::unpack_activity(packed.stack_pointer, packed.return_address).age ==
          0x123456789ABCDE);
    note(cupti, EventKind::device_activity, record, packed.stack_pointer, packed.return_address,
         1000);
  };
  done(1, 8, 30);
  done(2, 7, 5);
  done(1, 8, 10);  // A graph's kernels have the number of its launch.
  done(0, 8, 1);   // There was no room for its record.
  done(1, 9, 1);   // Its call was not recorded.
  count_paths(t.trace, {});
  REQUIRE(t.trace.paths.size() == 3);
  CHECK(t.trace.paths[0].activities == std::vector<ActivityCount>{{2, 1, 5, 5, 5}});
  CHECK(t.trace.paths[1].activities.empty());
  CHECK(t.trace.paths[2].activities ==
        std::vector<ActivityCount>{{1, 2, 40, 10, 30}, {0, 1, 1, 1, 1}});
  REQUIRE(t.trace.meta.warnings.size() == 1);
  CHECK(t.trace.meta.warnings[0].starts_with("1 kernels, copies or fills"));
}

TEST_CASE("what a device did for Python or an autograd node hangs there", "[path_counter]") {
  TraceBuilder t;
  const auto loop = t.function(kLoop), inner = t.function("inner");
  const auto module = t.python("forward");
  t.trace.op_records = {"{}", R"({"kind": "kernel"})"};
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(loop, kNone, 1000);
  t.python_event(EventKind::python_call, module, 900);
  note(thread, EventKind::device_call, 0, 700, 1);
  t.enter(inner, loop, 800);
  note(thread, EventKind::device_call, 0, 700, 2);
  note(thread, EventKind::device_call, 0, 850, 3);  // After `inner` has returned.
  for (const std::uint32_t call : {1U, 2U, 3U})
    note(thread, EventKind::device_activity, 1, call, call);
  count_paths(t.trace, {});
  for (const TracePath& path : t.trace.paths) {
    std::uint64_t took = 0;
    for (const ActivityCount& counted : path.activities) took += counted.total_time;
    CHECK(took == (path.kind == PathKind::python ? 4 : path.what == inner ? 2 : 0));
  }
}

TEST_CASE("calls are remembered for long, but not for ever", "[path_counter]") {
  TraceBuilder t;
  const auto kernel = t.function("kernel");
  t.trace.op_records = {"{}", R"({"kind": "kernel"})"};
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(kernel, kNone, 1000);
  constexpr std::uint64_t kCalls = 1 << 20;
  for (std::uint64_t call = 1; call <= kCalls; ++call)
    note(thread, EventKind::device_call, 0, 900, call);
  note(thread, EventKind::device_activity, 1, 1, 1);
  note(thread, EventKind::device_activity, 1, kCalls - 200'000, 1);
  note(thread, EventKind::device_activity, 1, kCalls, 1);
  count_paths(t.trace, {});
  CHECK(t.trace.paths[0].activities == std::vector<ActivityCount>{{1, 2, 2, 1, 1}});
  CHECK(t.trace.meta.warnings.size() == 1);
}

TEST_CASE("more kinds of activities than are kept are counted", "[path_counter]") {
  TraceBuilder t;
  const auto kernel = t.function("kernel");
  t.trace.op_records.resize(kMaxActivities + 3, "{}");
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(kernel, kNone, 1000);
  note(thread, EventKind::device_call, 0, 900, 1);
  for (int round = 0; round < 2; ++round)
    for (std::uint32_t record = 1; record <= kMaxActivities + 2; ++record)
      note(thread, EventKind::device_activity, record, 1, 1);
  count_paths(t.trace, {});
  CHECK(t.trace.paths[0].activities.size() == kMaxActivities);
  CHECK(t.trace.paths[0].activities.back() == ActivityCount{kMaxActivities, 2, 2, 1, 1});
  CHECK(t.trace.paths[0].activities_left_out == 4);
  CHECK(t.trace.meta.warnings.empty());
}

TEST_CASE("of what is not selected, a device's work is not counted", "[path_counter]") {
  TraceBuilder t;
  const auto add = t.function(kAddCall), mul = t.function(kMulCall);
  t.trace.op_records = {"{}", R"({"kind": "kernel"})"};
  ThreadRecord& thread = t.trace.threads[0];
  t.enter(add, kNone, 1000);
  note(thread, EventKind::device_call, 0, 900, 1);
  t.enter(mul, kNone, 1000);
  note(thread, EventKind::device_call, 0, 900, 2);
  note(thread, EventKind::device_activity, 1, 1, 10);
  note(thread, EventKind::device_activity, 1, 2, 20);
  count_paths(t.trace, {.ops = "mul*"});
  REQUIRE(t.trace.paths.size() == 1);
  CHECK(t.trace.paths[0].activities == std::vector<ActivityCount>{{1, 1, 20, 20, 20}});
  CHECK(t.trace.meta.warnings.empty());
}

TEST_CASE("more kinds of records than are kept are counted", "[path_counter]") {
  TraceBuilder t;
  const auto add = t.function(kAddCall);
  t.trace.op_records.assign(40, R"({"op": "aten::add.Tensor"})");
  for (std::uint32_t record = 1; record < 40; ++record) {
    t.enter(add, kNone, 1000);
    note(t.trace.threads[0], EventKind::op_begin, record, kNoSequence, 1);
    note(t.trace.threads[0], EventKind::op_end, 0, kNoSequence, 1);
  }
  count_paths(t.trace, {});
  CHECK(t.trace.paths[0].ops.size() == kMaxCounts);
  CHECK(t.trace.paths[0].ops_left_out == 39 - kMaxCounts);
}

TEST_CASE("a node that runs on another thread knows the op that made it", "[path_counter]") {
  TraceBuilder t;
  const auto add = t.function(kAddCall), mul = t.function(kMulCall),
             engine = t.function("_ZN5torch8autograd4NodeclEOSt6vectorIN2at6TensorESaIS4_EE"),
             apply = t.function("apply"), validate = t.function("validate_outputs");
  t.trace.op_records = {"{}", R"({"op": "aten::add.Tensor"})", R"({"op": "aten::mul.Tensor"})",
                        R"({"node": "AddBackward0"})", R"({"node": "MulBackward0"})"};
  ThreadRecord& forward = t.trace.threads[0];
  std::uint64_t sequence = 10;
  for (const auto& [function, record] : {std::pair(add, 1U), std::pair(mul, 2U)}) {
    t.enter(function, kNone, 1000);
    note(forward, EventKind::op_begin, record, sequence++, 1);
    note(forward, EventKind::op_end, 0, 0, 1);
  }
  ThreadRecord backward;
  backward.id = 2;
  std::uint64_t time = 100;
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t node = i == 0 ? 4 : 3;
    backward.events.push_back({.what = engine, .stack_pointer = 500, .time = time++});
    note(backward, EventKind::node_begin, node, i == 0 ? 11 : 10, 1, time++);
    backward.events.push_back({.what = apply,
                               .caller = engine,
                               .stack_pointer = 400,
                               .return_address = 5,
                               .time = time++});
    note(backward, EventKind::node_end, node, 0, 1, time++);
    // Reduces the gradients of the node.
    backward.events.push_back({.what = validate,
                               .caller = engine,
                               .stack_pointer = 400,
                               .return_address = 6,
                               .time = time++});
  }
  t.trace.threads.push_back(backward);
  count_paths(t.trace, {});
  std::size_t nodes = 0;
  for (const TracePath& path : t.trace.paths) {
    if (path.kind != PathKind::node) continue;
    ++nodes;
    REQUIRE(path.caused_by != kNone);
    const std::uint32_t made_by = t.trace.paths[path.caused_by].what;
    CHECK(made_by == (path.what == 3 ? add : mul));
  }
  CHECK(nodes == 2);
  // Two ops, and under each node what it calls, and the engine after it.
  CHECK(leaves(t.trace).size() == 6);
  for (const TracePath& path : t.trace.paths)
    if (path.kind == PathKind::function && path.what == validate)
      CHECK(t.trace.paths[path.parent].kind == PathKind::node);
}

TEST_CASE("functions that were live before recording are outside of all that is called since",
          "[path_counter]") {
  TraceBuilder t;
  const auto loop = t.function(kLoop), import = t.function("import"), work = t.function("work");
  const auto main = t.python("__main__.<module>"), hook = t.python("hook");
  t.live_at_start(loop, 3000);
  t.live_at_start(import, 2500);
  t.live_at_start(loop, 2000);
  t.python_event(EventKind::python_call, hook, 1900);
  t.python_event(EventKind::python_call, main, 0);  // Without a stack pointer.
  t.python_event(EventKind::python_return, hook, 1900);
  t.enter(work, loop, 2900, 1);
  t.enter(work, loop, 2900, 1);
  count_paths(t.trace, {});
  const Leaves all = leaves(t.trace);
  CHECK(std::ranges::count(all, std::string(kLoop) + " > __main__.<module> > work x2") == 1);
}

TEST_CASE("a worker belongs to the region whose data it shares, whatever is nearer in time",
          "[path_counter]") {
  constexpr std::uint64_t kFirstData = 0x7ffd'0000'1000, kSecondData = 0x7ffd'0000'2000;
  TraceBuilder t;
  const auto first = t.function("first"), second = t.function("second");
  const auto parallel = t.function("GOMP_parallel"), helper = t.function("helper");
  const auto body = t.function("_ZN2at8internal15invoke_parallelIZ1fvE_EEv._omp_fn.0");
  const auto start = t.function("gomp_thread_start");
  t.trace.threads.resize(4);
  const auto enter = [&](std::size_t thread, std::uint32_t what, std::uint32_t caller,
                         std::uint64_t slot, std::uint64_t time) {
    t.trace.threads[thread].id = thread + 1;
    t.trace.threads[thread].events.push_back(
        {.what = what,
         .caller = caller,
         .stack_pointer = slot,
         .return_address = caller == kNone ? 0 : (caller + std::uint64_t{1}) * 1000,
         .time = time});
  };
  const auto arguments = [&](std::size_t thread, std::uint64_t slot, std::uint64_t one,
                             std::uint64_t two, std::uint64_t time) {
    t.trace.threads[thread].events.push_back({.kind = EventKind::arguments,
                                              .line = static_cast<std::uint32_t>(slot),
                                              .stack_pointer = one,
                                              .return_address = two,
                                              .time = time});
  };
  const auto open = [&](std::size_t thread, std::uint32_t caller, std::uint64_t data,
                        std::uint64_t time) {
    enter(thread, caller, kNone, 1000, time);
    enter(thread, parallel, caller, 900, time + 1);
    arguments(thread, 900, 0x1234, data, time + 2);
    enter(thread, body, parallel, 800, time + 10);
    arguments(thread, 800, data, 0, time + 11);
    enter(thread, helper, body, 700, time + 12);
  };
  const auto work = [&](std::size_t thread, std::uint64_t data, std::uint64_t time) {
    enter(thread, body, start, 5000, time);
    arguments(thread, 5000, data, 0, time + 1);
    enter(thread, helper, body, 4000, time + 2);
  };
  for (const std::uint64_t round : {100U, 200U}) {
    open(0, first, kFirstData, round);
    open(1, second, kSecondData, round + 20);
    if (round == 100) enter(2, start, kNone, 6000, 1);  // The worker's own frame.
    work(2, kFirstData, round + 31);                    // Closer in time to the other region.
    work(3, kSecondData, round + 25);  // Before the opening thread; other regions are still live.
  }
  count_paths(t.trace, {});
  const std::string inside =
      std::string(" > GOMP_parallel > ") + t.trace.functions[body].symbol + " > helper x4";
  Leaves all = leaves(t.trace);
  std::ranges::sort(all);
  CHECK(all == Leaves{"first" + inside, "gomp_thread_start x1", "second" + inside});
  for (const TracePath& path : t.trace.paths) {
    if (path.what != body && path.what != helper) continue;
    CHECK(path.thread_count == 2);
    CHECK(path.thread < 2);  // The thread that opened the region.
  }
}

TEST_CASE("a worker counts what the call that opened its region counts", "[path_counter]") {
  TraceBuilder t;
  const auto add = t.function(kAddCall), parallel = t.function("GOMP_parallel"),
             body = t.function("f._omp_fn.0");
  t.trace.threads.resize(2);
  t.trace.threads[1].id = 2;
  for (std::uint64_t call = 0; call < 3; ++call) {
    const std::uint64_t time = 100 * (call + 1);
    t.enter(add, kNone, 1000);
    at_time(t, time);
    t.enter(parallel, add, 900);
    at_time(t, time + 1);
    note(t.trace.threads[0], EventKind::arguments, 0, 1, 77, time + 2);
    t.trace.threads[0].events.back().line = 900;
    for (ThreadRecord& thread : t.trace.threads) {
      const bool opener = thread.id == 1;
      thread.events.push_back({.what = body,
                               .caller = opener ? parallel : kNone,
                               .stack_pointer = opener ? 800U : 5000U,
                               .return_address = opener ? 2000U : 1U,
                               .time = time + 10});
      note(thread, EventKind::arguments, 0, 77, 0, time + 11);
      thread.events.back().line = opener ? 800 : 5000;
    }
  }
  count_paths(t.trace, {.ops = "add*", .skip = 1, .count = 1});
  CHECK(leaves(t.trace) == Leaves{std::string(kAddCall) + " > GOMP_parallel > f._omp_fn.0 x2"});
}

TEST_CASE("a returned value belongs to the call with its return slot and address",
          "[path_counter]") {
  TraceBuilder t;
  const auto a = t.function("a"), b = t.function("b"), c = t.function("c");
  t.trace.functions[b].tail_calls = {c};
  const auto returns = [&](std::uint64_t slot, std::uint64_t offset, std::uint32_t value) {
    const std::uint64_t address = (a + std::uint64_t{1}) * 1000;  // As enter() has it.
    t.trace.threads[0].events.push_back({.kind = EventKind::returned,
                                         .what = value,
                                         .stack_pointer = slot,
                                         .return_address = address + offset,
                                         .time = 0});
  };
  t.enter(a, kNone, 1000);
  t.enter(b, a, 900);
  t.enter(c, b, 900);  // By a tail call: the value is that of the outermost function.
  t.trace.threads[0].events.back().return_address = t.trace.threads[0].events[1].return_address;
  t.trace.threads[0].events.back().caller = a;
  returns(900, 0, 7);
  returns(900, 0, 8);  // The same code, reached without the call: the call has returned already.
  t.enter(b, a, 900);
  returns(900, 4, 9);  // Another place.
  returns(800, 0, 9);  // Another frame.
  returns(900, 0, 7);
  t.enter(b, a, 900);
  t.enter(b, a, 800);  // Recursion: the inner call returns first.
  returns(800, 0, 1);
  t.enter(b, a, 900);  // The call before ended by an exception.
  returns(900, 0, 7);
  count_paths(t.trace, {});
  std::vector<ReturnCount> of_b, of_others;
  for (const TracePath& path : t.trace.paths) {
    auto& list = path.what == b && path.kind == PathKind::function ? of_b : of_others;
    list.insert(list.end(), path.returned.begin(), path.returned.end());
  }
  CHECK(of_others.empty());
  CHECK(of_b == std::vector<ReturnCount>{{7, 3}, {1, 1}});
}
