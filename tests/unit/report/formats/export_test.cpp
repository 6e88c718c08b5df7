// The formats that other tools open.

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"

using Catch::Contains;
using namespace optrace;
using namespace optrace::test;

namespace {

// main -> add (100 ns) -> add (30 ns) -> kernel (10 ns), and main -> mul (50 ns).
Report add_and_mul() {
  Report report;
  Frame inner = op_call("aten::add", 30);
  inner.children.push_back(timed_frame(Layer::kernel, "at::native::add", 10));
  Frame outer = op_call("aten::add", 100);
  outer.calls = 2;
  outer.children.push_back(std::move(inner));
  Frame main = timed_frame(Layer::python, "__main__.<module>", 200);
  main.source = FrameSource{"train.py", 3, {}, ""};
  main.children.push_back(std::move(outer));
  main.children.push_back(op_call("aten::mul", 50));
  report.roots.push_back(std::move(main));
  return report;
}

}  // namespace

TEST_CASE("folded stacks have the time of their innermost frame", "[export]") {
  CHECK(to_folded(add_and_mul()) ==
        "<module> 50\n"
        "<module>;aten::add (call) 70\n"
        "<module>;aten::add (call);aten::add (call) 20\n"
        "<module>;aten::add (call);aten::add (call);at::native::add 10\n"
        "<module>;aten::mul (call) 50\n");
}

TEST_CASE("a folded stack is one line of its parts", "[export]") {
  Report report;
  report.roots.push_back(timed_frame(Layer::python, "a;b\nc", 4));
  CHECK(to_folded(report) == "a,b\\x0ac 4\n");
}

TEST_CASE("a dispatch trace has PyTorch's own format", "[export]") {
  Report report = add_and_mul();
  Frame& add = report.roots[0].children[0];
  dispatch_of(add).choice.dispatch_key = "AutogradCPU";
  Frame node = timed_frame(Layer::autograd, "AddBackward0", 0);
  node.detail.edit().node = NodeDetail{"AddBackward0", "", {}};
  node.children.push_back(op_call("aten::detach", 1));
  add.children.push_back(std::move(node));
  Frame& inner = add.children[0];
  inner.name = "c10::OperatorHandle::redispatchBoxed";
  dispatch_of(inner).step = DispatchStep::redispatch;
  dispatch_of(inner).choice.dispatch_key = "CPU\n";
  CHECK(to_dispatch_trace(report) ==
        " [call] op=[aten::add], key=[AutogradCPU]\n"
        "  [redispatchBoxed] op=[aten::add], key=[CPU\\x0a]\n"
        " [call] op=[aten::mul], key=[?]\n"
        " [call] op=[aten::detach], key=[?]\n");
}

TEST_CASE("a deep recursion is cut off", "[export]") {
  constexpr std::uint64_t kDepth = 600;
  Frame inner = timed_frame(Layer::python, "f", 1);
  for (std::uint64_t i = 1; i < kDepth; ++i) {
    Frame outer = timed_frame(Layer::python, "f", i + 1);
    outer.children.push_back(std::move(inner));
    inner = std::move(outer);
  }
  Report report;
  report.roots.push_back(std::move(inner));
  const auto file = nlohmann::json::parse(to_speedscope(report));
  const auto& profile = file.at("profiles").at(0);
  CHECK(profile.at("endValue") == kDepth);
  CHECK(profile.at("samples").size() == kDepth);
  CHECK(profile.at("samples").back().size() == 512);
}

TEST_CASE("speedscope's file has a sample for each folded line", "[export]") {
  const auto file = nlohmann::json::parse(to_speedscope(add_and_mul()));
  const auto& profile = file.at("profiles").at(0);
  CHECK(profile.at("name") == "thread 7");
  CHECK(profile.at("endValue") == 200);
  CHECK(profile.at("weights") == nlohmann::json({50, 70, 20, 10, 50}));
  CHECK(profile.at("samples") == nlohmann::json({{0}, {0, 1}, {0, 1, 1}, {0, 1, 1, 2}, {0, 3}}));
  CHECK(file.at("shared").at("frames").at(0) ==
        nlohmann::json({{"name", "<module>"}, {"file", "train.py"}, {"line", 3}}));
}

TEST_CASE("an op's time has each moment once", "[export]") {
  CHECK(to_csv(add_and_mul()) ==
        "op,calls,total_ns,own_ns\n"
        "aten::add,3,100,100\n"
        "aten::mul,1,50,50\n");
}

TEST_CASE("an autograd node's time is not the op's", "[export]") {
  Frame node = timed_frame(Layer::autograd, "MulBackward0", 40);
  node.detail.edit().node = NodeDetail{"MulBackward0", "aten::mul", {}};
  node.children.push_back(op_call("aten::mul", 30));
  Report report = add_and_mul();
  report.roots.front().children.back().children.push_back(std::move(node));
  CHECK(to_csv(report) ==
        "op,calls,total_ns,own_ns\n"
        "aten::add,3,100,100\n"
        "aten::mul,2,80,80\n");
  CHECK_THAT(to_folded(report), Contains("<module>;aten::mul (call) 50\n"));
}

TEST_CASE("a summary has the lines, the ops and the libraries", "[export]") {
  Report report = add_and_mul();
  Frame& mul = report.roots.front().children.back();
  mul.source = FrameSource{"", 0, 8, ""};
  dispatch_of(mul).arguments =
      std::vector<Argument>{{"self", tensor("float32", {4, 8})}, {"other", tensor("int64", {})}};
  Frame library = timed_frame(Layer::library, "sgemm_", 20);
  library.detail.edit().library = "BLAS";
  mul.children.push_back(std::move(library));
  const std::string text = to_summary(report, {});
  CHECK_THAT(text, Contains("150 ns in 3 calls of ops and autograd nodes"));
  CHECK_THAT(text, Contains("  100 ns 66.7 %         2  train.py:3 <module>  aten::add\n"));
  CHECK_THAT(text, Contains("   50 ns 33.3 %         1  train.py:8 <module>  aten::mul\n"));
  CHECK_THAT(text, Contains("aten::mul  sgemm_  float32 4×8, int64 scalar\n"));
  CHECK_THAT(text, Contains("   20 ns 13.3 %         1  BLAS  sgemm_\n"));
  ReportTextOptions narrow;
  narrow.width = 40;
  CHECK_THAT(to_summary(report, narrow), Contains("  100 ns 66.7 %         2  train.py:3 <…\n"));
}

TEST_CASE("a summary names what did an op's work", "[export]") {
  const auto child = [](Frame& parent, Layer layer, const std::string& name, std::uint64_t time) {
    parent.children.push_back(timed_frame(layer, name, time));
    parent.children.back().library = "libtorch_cpu.so";
    return &parent.children.back();
  };
  Report report = add_and_mul();
  Frame& mul = report.roots.front().children.back();
  Frame& wrapper = *child(mul, Layer::kernel, "at::(anonymous namespace)::wrapper_CPU_mul", 50);
  Frame& meta = *child(wrapper, Layer::kernel, "at::meta::structured_mul::meta", 30);
  child(meta, Layer::kernel, "at::native::result_type", 28);
  const auto named = [&] { return to_summary(report, {}); };
  CHECK_THAT(named(), Contains("aten::mul  at::wrapper_CPU_mul\n"));
  Frame& kernel = *child(wrapper, Layer::kernel, "at::native::structured_mul_out::impl", 18);
  child(kernel, Layer::kernel, "at::native::largestIndex", 9);
  CHECK_THAT(named(), Contains("aten::mul  at::native::structured_mul_out::impl\n"));
  const std::string copy =
      "at::native::(anonymous namespace)::mul_kernel::{lambda()#1}::operator()";
  child(kernel, Layer::kernel, copy, 4)->detail.edit().cpu_capability = "AVX2";
  child(kernel, Layer::library, "cublasSetStream_v2", 5);
  CHECK_THAT(named(), Contains("aten::mul  at::native::mul_kernel\n"));
  child(kernel, Layer::library, "sgemm_", 5);
  CHECK_THAT(named(), Contains("aten::mul  sgemm_ +1\n"));
  child(kernel, Layer::device, "gemm_kernel", 3)->detail.edit().duration = Duration{3, 3, 3};
  CHECK_THAT(named(), Contains("aten::mul  gemm_kernel\n"));
}

TEST_CASE("a summary of nothing", "[export]") {
  CHECK_THAT(to_summary(Report{}, {}), Contains("No op ran.\n"));
}

TEST_CASE("a field of CSV is quoted, and no formula", "[export]") {
  Report report;
  report.roots.push_back(op_call("=1,\"2\"", 1));
  CHECK_THAT(to_csv(report), Contains("\"'=1,\"\"2\"\"\",1,1,1\n"));
}

TEST_CASE("a graph has each function once, and its calls", "[export]") {
  const std::string dot = to_dot(add_and_mul());
  CHECK_THAT(dot, Contains("n0 [label=\"<module>\\ntrain.py:3\""));
  CHECK_THAT(dot, Contains("  n0 -> n1 [label=\"×2\"];\n"));
  CHECK_THAT(dot, Contains("  n1 -> n1;\n"));
  CHECK_THAT(dot, !Contains("n4"));
}

TEST_CASE("names can't end a label of a graph", "[export]") {
  Report report;
  report.roots.push_back(timed_frame(Layer::python, "a\"];\\ `b", 1));
  CHECK_THAT(to_dot(report), Contains("label=\"a\\\"];\\\\ `b\""));
}

namespace {

// A report with a timeline: main calls add twice, the second call ends together with main.
Report timed() {
  Report report;
  Frame add = op_call("aten::add", 30);
  add.number = 2;
  Frame main = timed_frame(Layer::python, "__main__.<module>", 100);
  main.number = 1;
  main.children.push_back(std::move(add));
  report.roots.push_back(std::move(main));
  LibraryCall copy;
  copy.bytes = 8;
  Timeline& timeline = report.timeline.emplace();
  timeline.process = 7;
  timeline.start_unix_ns = 7'889'238'000'000'000 + 5;
  timeline.threads.push_back({7, {{1, 1000, 1100}, {2, 1010, 1050}, {2, 1050, 1100}}});
  timeline.work_kinds.push_back({"copy", copy});
  timeline.lanes.push_back({0, 3, 0, {{0, 1060, 1070}}});
  timeline.launches.push_back({{0, 1055}, {0, 1060}});
  return report;
}

}  // namespace

TEST_CASE("calls on a time axis nest strictly, as doubles too", "[export]") {
  const auto file = nlohmann::json::parse(to_perfetto(timed()));
  CHECK(file.at("baseTimeNanoseconds") == 7'889'238'000'000'000);
  std::vector<std::string> slices;
  for (const auto& event : file.at("traceEvents"))
    if (event.at("ph") == "X")
      slices.push_back(event.at("name").get<std::string>() + " " + event.at("ts").dump() + " " +
                       event.at("dur").dump());
  CHECK(slices == std::vector<std::string>{"<module> 1.005 0.1", "aten::add (call) 1.015 0.038",
                                           "aten::add (call) 1.055 0.048", "copy 1.065 0.01"});
  const auto& last = file.at("traceEvents").back();
  CHECK((last.at("ph") == "f" && last.at("tid") == 10'000'000 && last.at("ts") == 1.065));
}

TEST_CASE("an arrow needs both of its ends", "[export]") {
  Report report = timed();
  report.timeline->launches[0].from.time = 2000;
  CHECK_THAT(to_perfetto(report), !Contains("\"ph\":\"s\""));
}

TEST_CASE("speedscope's file has the calls of a timeline", "[export]") {
  const auto file = nlohmann::json::parse(to_speedscope(timed()));
  const auto& profile = file.at("profiles").at(0);
  CHECK((profile.at("type") == "evented" && profile.at("endValue") == 1100));
  std::string events;
  for (const auto& event : profile.at("events"))
    events += event.at("type").get<std::string>() + event.at("frame").dump() + " " +
              event.at("at").dump() + " ";
  CHECK(events == "O0 1000 O1 1010 C1 1050 O1 1050 C1 1100 C0 1100 ");
}
