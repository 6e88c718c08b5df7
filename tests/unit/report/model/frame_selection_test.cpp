#include "report/model/frame_selection.h"

#include <string>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "report/model/frame_time.h"
#include "report/model/walk_frames.h"
#include "tests/unit/report/frames.h"

using Catch::Contains;
using optrace::Frame;
using optrace::FrameSelection;
using optrace::FrameSource;
using optrace::Layer;
using optrace::Report;
using optrace::test::op_call;
using optrace::test::timed_frame;

namespace {

// main (1000 ns) in train.py calls linear (400) in line 7, which calls addmm (300) and its kernel
// (200); and mul (100) in line 8.
Report linear_and_mul() {
  Frame kernel = timed_frame(Layer::kernel, "at::native::addmm_cpu", 200);
  Frame addmm = op_call("aten::addmm", 300);
  addmm.children.push_back(std::move(kernel));
  Frame linear = op_call("aten::linear", 400);
  linear.source = FrameSource{.file = "Operators.cpp", .line = 1, .call_line = 7, .url = ""};
  linear.children.push_back(std::move(addmm));
  Frame mul = op_call("aten::mul.Tensor", 100);
  mul.source = FrameSource{.file = "Operators.cpp", .line = 2, .call_line = 8, .url = ""};
  Frame main = timed_frame(Layer::python, "train.main", 1000);
  main.source = FrameSource{.file = "/home/u/train.py", .line = 3, .call_line = {}, .url = ""};
  main.children.push_back(std::move(linear));
  main.children.push_back(std::move(mul));
  Report report;
  report.roots.push_back(std::move(main));
  return report;
}

// `main:300 linear:300 addmm:300`: the names of ops or functions, and the total times.
std::string shown(const FrameSelection& selection) {
  Report report = linear_and_mul();
  select_frames(report, selection);
  std::string text;
  walk_frames(report.roots, 0, [&](const Frame& each, int) {
    text += (text.empty() ? "" : " ") + each.op.value_or(each.name) + ":" +
            std::to_string(total_time(each));
    return 0;
  });
  return text;
}

const std::string kAll =
    "train.main:1000 aten::linear:400 aten::addmm:300 at::native::addmm_cpu:200 "
    "aten::mul.Tensor:100";

}  // namespace

TEST_CASE("without a restriction, everything is shown", "[selection]") {
  CHECK(shown({}) == kAll);
  Report report = linear_and_mul();
  select_frames(report, {});
  CHECK(report.recording.shown.empty());
}

TEST_CASE("what is under an op, a function or a line is shown with what leads to it",
          "[selection]") {
  const std::string addmm =
      "train.main:300 aten::linear:300 aten::addmm:300 at::native::addmm_cpu:200";
  CHECK(shown({.under = {"aten::addmm"}}) == addmm);
  CHECK(shown({.under = {"addmm"}}) == addmm);
  CHECK(shown({.ops = {"addm*"}}) == addmm);
  CHECK(shown({.under = {"addmm_cpu"}}) ==
        "train.main:200 aten::linear:200 aten::addmm:200 at::native::addmm_cpu:200");
  CHECK(shown({.under = {"train.py:8"}}) == "train.main:100 aten::mul.Tensor:100");
  CHECK(shown({.under = {"u/train.py:8", "mul"}}) == "train.main:100 aten::mul.Tensor:100");
  CHECK(shown({.under = {"train.py:3"}}) == kAll);
  CHECK(shown({.under = {"train.py:7"}, .ops = {"addmm"}}) == addmm);
}

TEST_CASE("levels count from the selected frames", "[selection]") {
  CHECK(shown({.depth = 1}) == "train.main:1000");
  CHECK(shown({.depth = 2}) == "train.main:1000 aten::linear:400 aten::mul.Tensor:100");
  CHECK(shown({.under = {"linear"}, .depth = 1}) == "train.main:400 aten::linear:400");
}

TEST_CASE("frames with little time are left out", "[selection]") {
  CHECK(shown({.min_time = 300}) == "train.main:1000 aten::linear:400 aten::addmm:300");
  CHECK(shown({.min_time = 1001}).empty());
}

TEST_CASE("the frames with the most time of their own are shown", "[selection]") {
  // main has 500 ns of its own, the kernel 200.
  CHECK(shown({.top = 1}) == "train.main:500");
  CHECK(shown({.top = 2}) ==
        "train.main:700 aten::linear:200 aten::addmm:200 at::native::addmm_cpu:200");
  CHECK(shown({.under = {"linear"}, .top = 1}) ==
        "train.main:200 aten::linear:200 aten::addmm:200 at::native::addmm_cpu:200");
}

TEST_CASE("a selection that matches nothing is an error", "[selection]") {
  CHECK_THROWS_WITH(shown({.under = {"ater.py:7"}}),
                    "nothing in the trace matches --under 'ater.py:7'");
  CHECK_THROWS_WITH(shown({.under = {"train.py:9"}}), Contains("train.py:9"));
  CHECK_THROWS_WITH(shown({.under = {"ain.py:7"}}), Contains("ain.py:7"));
  CHECK_THROWS_WITH(shown({.under = {""}}), Contains("--under ''"));
  CHECK_THROWS_WITH(shown({.under = {"::7"}}), Contains("::7"));
  CHECK_THROWS_WITH(shown({.under = {"train.py:99999999999999999999"}}), Contains("9999"));
  CHECK_THROWS_WITH(shown({.under = {"addmm"}, .ops = {"nosuch"}}), Contains("--ops 'nosuch'"));
}

TEST_CASE("the header names the selection", "[selection]") {
  Report report = linear_and_mul();
  select_frames(report, {.under = {"a*"}, .depth = 2, .min_time = 5, .top = 3});
  CHECK(report.recording.shown == "--under 'a*' --depth 2 --min-time 5ns --top 3");
}

TEST_CASE("a tree as deep as a recursion is selected from", "[selection]") {
  Frame deep = op_call("aten::addmm", 1);
  for (int i = 0; i < 100'000; ++i) {
    Frame above = timed_frame(Layer::python, "f", 1);
    above.children.push_back(std::move(deep));
    deep = std::move(above);
  }
  Report report;
  report.roots.push_back(std::move(deep));
  select_frames(report, {.under = {"addmm"}, .top = 1});
  CHECK(report.roots.size() == 1);
}
