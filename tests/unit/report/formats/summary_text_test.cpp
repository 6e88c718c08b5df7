// The summary's length.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "report/model/shortfalls.h"
#include "tests/unit/report/frames.h"
#include "tests/unit/report/written_report.h"

using Catch::Contains;
using namespace optrace;
using namespace optrace::test;

namespace {

// A call of an op by a line, which makes a finding: it reads a number from a device.
Frame numbered_call(std::size_t number) {
  Frame op = timed_frame(Layer::dispatcher, "at::_ops::call", 1000 - number);
  op.op = fmt::format("aten::op{}", number);
  if (number % 2 == 0) op.op = "aten::_local_scalar_dense";
  op.calls = 12;
  op.detail.edit().processes = {.by_rank = true, .processes = {0}, .calls = {}};
  op.source = FrameSource{"", 0, static_cast<std::uint32_t>(number), ""};
  const TensorFacts self = tensor("float32", {}, fmt::format("cuda:{}", number % 8));
  DispatchDetail& dispatch = dispatch_of(op);
  dispatch.arguments = {{"self", self}};
  dispatch.results = {Result{self, ResultRelation::fresh, ""}};
  Frame library = timed_frame(Layer::library, fmt::format("function{}", number), 20);
  library.detail.edit().library = "cuBLAS";
  LibraryCall& copy = library.detail.edit().calls.emplace_back();
  copy.kind = "copy";
  copy.direction = fmt::format("way {}", number);
  copy.bytes = 4;
  copy.calls = 1;
  Frame kernel = timed_frame(Layer::device, fmt::format("kernel{}", number), 10);
  kernel.detail.edit().duration = Duration{10, 0, 0};
  library.children.push_back(std::move(kernel));
  op.children.push_back(std::move(library));
  return op;
}

// A kernel that torch.compile generated for two lines.
Frame fused_kernel(std::size_t number) {
  Frame kernel = timed_frame(Layer::kernel, fmt::format("cpp_fused_add_relu_{}", number), 30);
  const auto origin = [](const char* op, std::size_t line) {
    return Origin{.op = op,
                  .node = "",
                  .file = "/x/model.py",
                  .line = static_cast<std::uint32_t>(line),
                  .module = ""};
  };
  kernel.detail.edit().origins = {origin("aten::add.Tensor", 7), origin("aten::add.Tensor", 7),
                                  origin("aten::relu", number + 8)};
  return kernel;
}

// A report of a program with `count` of everything that a summary lists.
Report with_everything(std::size_t count) {
  Report report;
  report.recording.call = "python train.py";
  report.recording.python = "3.11.7";
  report.recording.shown = "--top 5";
  report.recording.duration = 5'000'000;
  report.recording.events = 7;
  report.torch.version = "2.6.0";
  report.torch.git_version = "2236df1770800ffea5697b11b0bb0d910b2e59e1";
  report.device = "cuda";
  report.source_version = "2.6.0";
  report.steps = RecordedSteps{.first = 3, .count = 2, .ended_after = 3};
  report.dry_run = EmulatedDevice{.arch = "sm_90", .gpu_model = "NVIDIA H100", .devices = 8};
  Frame main = timed_frame(Layer::python, "__main__.<module>", 1'000'000);
  main.source = FrameSource{"/home/u/train.py", 1, {}, ""};
  for (std::size_t i = 0; i < count; ++i) {
    report.processes.push_back({.id = 100 + i, .rank = i});
    report.recording.inputs.push_back({fmt::format("x{}", i), Sizes{2, 3}, "torch.float32"});
    report.recording.differences.push_back(fmt::format("only rank {} took a path", i));
    report.recording.warnings.push_back(fmt::format("warning {}", i));
    main.children.push_back(numbered_call(i + 1));
    main.children.push_back(fused_kernel(i));
  }
  report.roots.push_back(std::move(main));
  for (const char* const kind : {"events_lost", "texts_lost", "paths_merged", "callers_inferred"})
    report.shortfalls.push_back({kind, count});
  return report;
}

std::string summary(const Report& report, std::size_t width = 0) {
  ReportTextOptions options;
  options.width = width;
  options.trace_files = {"train.trace"};
  return to_summary(report, options);
}

std::ptrdiff_t line_count(const std::string& text) {
  return std::ranges::count(text, '\n');
}

}  // namespace

TEST_CASE("a summary has at most 60 lines, of every section some", "[summary]") {
  for (const std::size_t count : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 10U, 13U, 40U, 400U}) {
    const std::string text = summary(with_everything(count));
    INFO(text);
    CHECK(line_count(text) <= 60);
    for (const char* const part :
         {"python train.py", "torch ", "input ", "ranks ", "recorded ", "steps ", "shown ",
          "dry run ", "source ", "warning ", "train.py:1 ", " aten::op1", " cuBLAS  function1\n",
          " kernel1\n",
          " cpp_fused_add_relu_0  model.py:7 aten::add.Tensor; model.py:8 aten::relu\n",
          "copied way 1:", "optrace report train.trace --format text"})
      CHECK_THAT(text, Contains(part));
    if (count > 1) CHECK_THAT(text, Contains("host-wait"));
    CHECK(text == summary(with_everything(count)));
  }
}

TEST_CASE("a summary says why ops have no line of the program", "[summary]") {
  Report report = with_everything(1);
  for (const char* const name : {"torch::autograd::AccumulateGrad", "MulBackward0"}) {
    Frame node = timed_frame(Layer::autograd, name, 500);
    node.detail.edit().node = NodeDetail{.node = name, .backward_of = "", .formulas = {}};
    node.children.push_back(numbered_call(1));
    report.roots.push_back(std::move(node));
  }
  report.roots.push_back(numbered_call(3));
  const std::string text = summary(report);
  for (const char* const reason :
       {"no line: AccumulateGrad stores gradients of leaves, which no op made  aten::op1\n",
        "no line: the op of MulBackward0 is not in the trace  aten::op1\n",
        "no line of the program is known  aten::op3\n"})
    CHECK_THAT(text, Contains(reason));
}

TEST_CASE("a summary says how much more there is, and what shows it", "[summary]") {
  const std::string text = summary(with_everything(40));
  INFO(text);
  CHECK(line_count(text) == 60);
  for (const char* const more :
       {"            and 36 more inputs, see --format text\n",
        "            and 36 more differences, see --format text\n",
        "            and 39 more warnings, see --format text\n", "more lines, see --format html\n",
        "more findings, see optrace findings\n", "more ops, see --format csv\n",
        "more kernels, see --format json\n", "more functions, see --format html\n",
        "more kernels, see --format html\n", "more copies and allocations, see --format json\n"})
    CHECK_THAT(text, Contains(more));
}

TEST_CASE("a summary of a program that died of a failed call names it first", "[summary]") {
  Report report = with_everything(1);
  Frame failed = timed_frame(Layer::library, "cudaMalloc", 20);
  LibraryCall& call = failed.detail.edit().calls.emplace_back();
  call.kind = "failed";
  call.status = "cudaErrorMemoryAllocation";
  call.error = 2;
  call.calls = 1;
  failed.source = FrameSource{"", 0, 17, ""};
  report.roots.front().children.push_back(std::move(failed));
  CHECK_THAT(summary(report), !Contains("\nfailed "));
  report.recording.exit_status = 1;
  CHECK_THAT(summary(report), Contains("\nfailed      cudaMalloc: cudaErrorMemoryAllocation (2), "
                                       "called from /home/u/train.py:17 <module>\n\n"));
}

TEST_CASE("a summary with room has more rows of each section", "[summary]") {
  Report report = with_everything(40);
  report.recording.inputs.clear();
  report.recording.differences.clear();
  report.recording.warnings.clear();
  report.shortfalls.clear();
  report.dry_run.reset();
  const std::string roomy = summary(report);
  INFO(roomy);
  CHECK(line_count(roomy) == 60);
  const auto rows = [](const std::string& text) {
    std::size_t count = 0;
    for (std::size_t at = text.find("host-wait"); at != std::string::npos;
         at = text.find("host-wait", at + 1))
      ++count;
    return count;
  };
  CHECK(rows(roomy) > rows(summary(with_everything(40))));
}
