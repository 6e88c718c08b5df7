#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <unistd.h>

#include "platform/elf/module_symbols.h"
#include "target/interface/recording_format.h"
#include "tests/unit/small_library.h"
#include "tests/unit/tracer/hand_written_region.h"
#include "tests/unit/tracer/traced_library.h"
#include "tracer/collect/collector.h"
#include "tracer/probes/probe_plan.h"
#include "tracer/probes/probe_session.h"
#include "tracer/probes/process_map.h"
#include "tracer/trace/recording.h"

using namespace optrace;
using namespace optrace::test;

namespace {

constexpr std::uint32_t kThread = 99;

recording::Module module_of(const ModuleSymbols& module) {
  recording::Module raw{};
  raw.bias = kBias;
  raw.first = kBias;
  raw.last = kBias + 0x10000;
  raw.build_id_size = static_cast<std::uint32_t>(module.build_id().size() / 2);
  for (std::size_t i = 0; i < raw.build_id_size; ++i) {
    raw.build_id[i] =
        static_cast<std::uint8_t>(std::stoul(module.build_id().substr(2 * i, 2), nullptr, 16));
  }
  raw.path_size = static_cast<std::uint32_t>(module.path().string().size());
  return raw;
}

/// A region with a library whose probes were placed, in which one thread has recorded.
class RecordedLibrary {
 public:
  RecordedLibrary(const TracedLibrary& traced, std::uint32_t first_probe, const ProbePlan& plan) {
    // Two ticks are a nanosecond, for longer than this test runs.
    constexpr std::uint64_t kHour = 3'600'000'000'000;
    region_.header().start_ticks = 1000;
    region_.header().stop_ticks = 1000 + 2 * kHour;
    region_.header().start_nanoseconds = 50;
    region_.header().stop_nanoseconds = 50 + kHour;
    region_.section(
        recording::SectionKind::module,
        HandWrittenRegion::bytes_of(module_of(*traced.module)) + traced.module->path().string());
    const auto count = static_cast<std::uint32_t>(plan.probes().size());
    const std::string path = plan.path().string();
    const recording::ProbeRange range{first_probe, count, count,
                                      static_cast<std::uint32_t>(path.size())};
    region_.section(recording::SectionKind::probes, HandWrittenRegion::bytes_of(range) + path);
  }

  const HandWrittenRegion& region() const { return region_; }

  /// Returns the trace of one call with these events.
  Trace trace(ProbeSession& session, const std::vector<recording::Event>& events,
              TraceMeta meta = {}) const {
    region_.own(0, kThread, 0);
    std::ranges::copy(events, region_.events(0));
    Collector collector(region_.file(), session,
                        {.selection = {}, .timeline = true, .single_call = true});
    collector.finish();
    return collector.take(std::move(meta));
  }

 private:
  HandWrittenRegion region_;
};

const char* const kKernel = "_ZN2at6native6kernelEi";
const char* const kCall = "_ZN2at4_ops4relu4callEi";
const char* const kPlumbing = "_Z8plumbingi";
const char* const kMorePlumbing = "_ZL13more_plumbingi";
const char* const kStart = "_Z5starti";

}  // namespace

TEST_CASE("a recording becomes a trace with names, callers and jumps") {
  const TracedLibrary traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plans = session.initial_plans({traced.library, traced.library});
  REQUIRE(plans.size() == 1);
  const auto plan = ProbePlan::open(plans[0]);
  REQUIRE(plan);
  CHECK(plan->probes().size() == 2);

  // The op, called by the unprobed plumbing(), and its kernel, reached by a tail call.
  const RecordedLibrary recorded(traced, 10, *plan);
  const HandWrittenRegion& region = recorded.region();
  region.python_function("F.relu", "/torch/functional.py", 12, "\x04\x01\x04\x02");
  region.python_function("torch.relu", "", 0);
  region.initial_stack(kThread, {{0x7ffe00, 0x1111, traced.inside(kMorePlumbing)},
                                 {0x7fff00, 0x2222, traced.inside(kStart)}});
  region.chunk(0).lost = 3;
  const std::uint32_t call_id = TracedLibrary::id(*plan, traced.functions.at(kCall).address, 10);
  const std::uint32_t kernel_id =
      TracedLibrary::id(*plan, traced.functions.at(kKernel).address, 10);
  TraceMeta meta;
  meta.op = "aten::relu";
  const Trace trace = recorded.trace(session,
                                     {{recording::kPythonCall, 40, 0x7ffd80, 0, 1100},
                                      {recording::kPythonPosition, 6, 0, 0, 1150},
                                      {recording::kBuiltinCall, 0, 0x7ffd80, 1, 1200},
                                      {call_id, 0, 0x7ffd00, traced.inside(kPlumbing), 1300},
                                      {kernel_id, 0, 0x7ffd00, traced.inside(kPlumbing), 1302},
                                      {kernel_id, 0, 0x7ffc00, 0x123456, 1304},
                                      {recording::kBuiltinReturn, 0, 0x7ffd80, 1, 1400},
                                      {recording::kPythonReturn, 0, 0x7ffd80, 0, 1500}},
                                     meta);
  CHECK(trace.meta.op == "aten::relu");
  CHECK(trace.meta.probes == TraceMeta::Probes{.mode = {}, .placed = 2, .failed = 0});
  REQUIRE(trace.modules.size() == 1);
  CHECK(trace.modules[0].build_id == traced.module->build_id());
  REQUIRE(trace.threads.size() == 1);
  const ThreadRecord& thread = trace.threads[0];
  CHECK(thread.id == 99);
  CHECK(thread.lost == 3);

  const auto name = [&](std::uint32_t function) { return trace.functions.at(function).symbol; };
  REQUIRE(thread.initial_stack.size() == 2);
  CHECK(name(thread.initial_stack[0].function) == kStart);  // Outermost first.
  CHECK(thread.initial_stack[0].return_address == 0x2222);
  CHECK(name(thread.initial_stack[1].function) == kMorePlumbing);
  CHECK(trace.functions.at(thread.initial_stack[1].function).source_file == "relu.cpp");

  REQUIRE(thread.events.size() == 8);
  CHECK(thread.events[0].kind == EventKind::python_call);
  CHECK(thread.events[0].line == 40);
  CHECK(trace.python_functions.at(thread.events[0].what).name == "F.relu");
  CHECK(thread.events[1].kind == EventKind::python_position);
  CHECK(thread.events[1].line == 15);  // From the second pair: 12 + 1 + 2.
  CHECK(thread.events[1].what == thread.events[0].what);
  CHECK(thread.events[2].kind == EventKind::builtin_call);
  CHECK(trace.python_functions.at(thread.events[2].what).name == "torch.relu");
  CHECK(thread.events[6].kind == EventKind::builtin_return);
  CHECK(thread.events[7].kind == EventKind::python_return);
  CHECK(std::ranges::count(trace.paths, 15U, &TracePath::line) == 1);  // The builtin's callee.

  const Event& call = thread.events[3];
  CHECK(call.kind == EventKind::function_entry);
  CHECK(name(call.what) == kCall);
  CHECK(name(call.caller) == kPlumbing);
  CHECK(call.return_address == traced.functions.at(kPlumbing).address + 6);
  CHECK(call.stack_pointer == 0x7ffd00);
  CHECK(call.time == 150);
  CHECK(trace.functions.at(call.what).probed);
  CHECK_FALSE(trace.functions.at(call.caller).probed);
  const Event& kernel = thread.events[4];
  CHECK(name(kernel.what) == kKernel);
  // The jump goes through the GOT, since an exported function may be interposed.
  CHECK(trace.functions.at(call.what).tail_calls == std::vector{kernel.what});
  CHECK(trace.functions.at(kernel.what).tail_calls.empty());
  CHECK(thread.events[5].caller == kNone);  // In no module: code generated at run time.
  CHECK(thread.events[5].return_address == 0x123456);

  const auto path = traced.folder.path() / "relu.trace";
  write_trace(trace, path);
  CHECK(read_trace(path).functions.size() == trace.functions.size());
}

TEST_CASE("functions without a probe that a jump goes through are looked through") {
  const TracedLibrary traced(R"(
namespace at::native { __attribute__((noinline)) int kernel(int n) { asm(""); return n + 1; } }
__attribute__((noinline)) int last(int n) { return at::native::kernel(n * 3); }
static __attribute__((noinline)) int first(int n) { return last(n * 5); }
namespace at::_ops {
struct relu { static int call(int n); };
__attribute__((noinline)) int relu::call(int n) { return first(n * 2); }
}
int plumbing(int n) { return at::_ops::relu::call(n) * 5; }
)");
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  REQUIRE(plan);
  REQUIRE(plan->probes().size() == 2);
  const std::uint32_t call = TracedLibrary::id(*plan, traced.functions.at(kCall).address, 0);
  const std::uint32_t kernel = TracedLibrary::id(*plan, traced.functions.at(kKernel).address, 0);
  const Trace trace = RecordedLibrary(traced, 0, *plan)
                          .trace(session, {{call, 0, 0x7ffd00, traced.inside(kPlumbing), 1300},
                                           {kernel, 0, 0x7ffd00, traced.inside(kPlumbing), 1302}});
  REQUIRE(trace.threads.at(0).events.size() == 2);
  const auto& events = trace.threads[0].events;
  CHECK(trace.functions.at(events[0].what).tail_calls == std::vector{events[1].what});
  CHECK(trace.functions.at(events[1].what).tail_calls.empty());
}

TEST_CASE("what is probed does not depend on what was recorded before") {
  const TracedLibrary traced;
  wait_until_settled();
  std::vector<std::filesystem::path> first;
  {
    ProbeSession session(traced.scratch("first"));
    first = session.initial_plans({traced.library});
    REQUIRE(first.size() == 1);
    const auto plan = ProbePlan::open(first[0]);
    const std::uint32_t call = TracedLibrary::id(*plan, traced.functions.at(kCall).address, 0);
    RecordedLibrary(traced, 0, *plan)
        .trace(session, {{call, 0, 0x7ffd00, traced.inside(kPlumbing), 1300}});
  }
  CHECK(ProbeSession(traced.scratch("second")).initial_plans({traced.library}) == first);
}

TEST_CASE("a caller without a probe is an event of its own") {
  const TracedLibrary traced;
  ProbeSession session(traced.scratch("scratch"));
  const auto plan = ProbePlan::open(session.initial_plans({traced.library}).at(0));
  const std::uint64_t inside = traced.inside(kPlumbing);
  const auto id = recording::kCaller | static_cast<std::uint32_t>(inside >> 32);
  const std::uint32_t call = TracedLibrary::id(*plan, traced.functions.at(kCall).address, 0);
  const Trace trace = RecordedLibrary(traced, 0, *plan)
                          .trace(session, {{id, static_cast<std::uint32_t>(inside), 0x7ffe00,
                                            traced.inside(kMorePlumbing), 1200},
                                           {recording::kCaller, 0x1234, 0x7ffe00, 0x5678, 1250},
                                           {call, 0, 0x7ffd00, inside, 1300}});
  const auto& events = trace.threads.at(0).events;
  REQUIRE(events.size() == 2);  // A caller in no module is dropped.
  CHECK(events[0].kind == EventKind::caller);
  CHECK(trace.functions.at(events[0].what).symbol == kPlumbing);
  CHECK(trace.functions.at(events[0].caller).symbol == kMorePlumbing);
  CHECK(events[0].stack_pointer == 0x7ffe00);
  CHECK(events[1].caller == events[0].what);
  REQUIRE(trace.paths.size() == 2);
  CHECK(trace.paths[1].parent == 0);
}

TEST_CASE("a recording of a library that was replaced has no names for it") {
  const TracedLibrary traced;
  RecordedTexts texts;
  const std::string section =
      HandWrittenRegion::bytes_of(module_of(*traced.module)) + traced.module->path().string();
  REQUIRE(texts.read(recording::SectionKind::module, std::as_bytes(std::span(section))));
  build_library(traced.folder.path(), "relu.cpp", "int other() { return 2; }");
  ProbeSession later(traced.scratch("later"));
  ProcessMap process(texts.modules, later.modules());
  CHECK(process.caller(traced.inside(kPlumbing)) == nullptr);
  REQUIRE(later.warnings().size() == 1);
  CHECK_THAT(later.warnings()[0], Catch::Contains("was replaced"));
}

TEST_CASE("only a builtin's own line shows that positions can't be read") {
  CHECK(lacks_position({recording::kBuiltinCall, 40, 0x7ffd80, 1, 1100}));
  CHECK_FALSE(lacks_position({recording::kBuiltinCall, 0, 0x7ffd80, 1, 1100}));
  // A function that was live when recording began always has its caller's line.
  CHECK_FALSE(lacks_position({recording::kPythonCall, 40, 0x7ffd80, 1, 1100}));
}
