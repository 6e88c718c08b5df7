#include "report/findings/findings.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "platform/error.h"
#include "report/check/check.h"
#include "report/findings/op_tensors.h"
#include "report/job/join.h"
#include "tests/unit/report/frames.h"

using namespace optrace;
using namespace optrace::test;

namespace {

Frame python_function(const std::string& name, const std::string& file, std::uint64_t calls = 1) {
  Frame made = frame(Layer::python, name, calls);
  made.source = FrameSource{.file = file, .line = 1, .call_line = {}, .url = ""};
  return made;
}

// Puts a call into line 7. It took 100 ns.
Frame in_line(Frame op) {
  op.source = FrameSource{.file = "Operators.cpp", .line = 1, .call_line = 7, .url = ""};
  op.time = optrace::FrameTime{100};
  return op;
}

// A call of an op of one argument.
Frame call_with(const std::string& op, std::uint64_t calls, Value self) {
  return in_line(call(op, calls).argument("self", std::move(self)));
}

// A tensor of which the shape is unknown.
TensorFacts tensor_without_shape(const std::string& device = "cpu") {
  TensorFacts made = tensor("float32", {}, device);
  made.shape.reset();
  made.strides.reset();
  return made;
}

Frame item(const std::string& device, std::uint64_t calls) {
  return call_with("aten::_local_scalar_dense", calls, tensor("float32", {}, device));
}

Report report_of(Frame below, const std::string& file = "/home/u/train.py") {
  Frame main = python_function("train.main", file);
  main.children.push_back(std::move(below));
  Report report;
  report.roots.push_back(std::move(main));
  return report;
}

std::vector<std::string> rules_in(const Report& report, const FindingOptions& options = {}) {
  std::vector<std::string> names;
  for (const Finding& finding : find(report, options)) names.emplace_back(finding.rule->name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a finding names the line, the calls and the cost", "[findings]") {
  const Report report = report_of(item("cuda:0", 12));
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].rule->name == "host-wait");
  CHECK(found[0].file == "/home/u/train.py");
  CHECK(found[0].line == 7);
  CHECK(found[0].calls == 12);
  CHECK(found[0].cost_ns == 100);
  CHECK(found[0].message ==
        "`main` reads a number from a tensor on cuda:0, 12 times in 1 call of it.");
  CHECK(found[0].evidence.size() == 1);
}

TEST_CASE("what is no finding", "[findings]") {
  CHECK(rules_in(report_of(item("cpu", 12))).empty());
  CHECK(rules_in(report_of(item("cuda:0", 1))).empty());
  CHECK(rules_in(report_of(item("cuda:0", 12), "torch/nn/functional.py")).empty());
  CHECK(rules_in(report_of(item("cuda:0", 12)), {.ignored = {"host-wait"}}).empty());
  CHECK(rules_in({}).empty());
}

TEST_CASE("a rule is applied to each process of a job", "[findings]") {
  Report report = report_of(item("cuda:0", 6));
  for (std::uint64_t rank = 0; rank < 4; ++rank)
    report.processes.push_back({.id = 100 + rank, .rank = rank});
  report.processes.push_back({.id = 99, .rank = {}});  // It starts the ranks.
  ProcessShare& share = report.roots[0].children[0].detail.edit().processes;
  CHECK(rules_in(report).empty());  // One or two calls in each of the ranks.
  share = {.by_rank = true, .processes = {}, .calls = {{3, 3, {1}}}};
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].message ==
        "`main` reads a number from a tensor on cuda:0, 3 times in 1 call of it in 1 of 4 ranks.");
  CHECK(found[0].cost_ns == 50);
  share = {.by_rank = true, .processes = {0, 2, 3}, .calls = {}};
  REQUIRE(find(report).size() == 1);
  CHECK(find(report)[0].processes == 3);
  CHECK(find(report)[0].calls == 6);
}

TEST_CASE("processes whose reports stand beside each other are judged apart", "[findings]") {
  const auto process = [](std::uint64_t id, std::uint64_t calls) {
    Report report = report_of(item("cuda:0", calls));
    report.recording.process.id = id;
    return report;
  };
  const auto job = [&](std::uint64_t first, std::uint64_t second) {
    std::vector<Report> reports;
    reports.push_back(process(1, first));
    reports.push_back(process(2, second));
    return join(std::move(reports));
  };
  CHECK(rules_in(job(1, 1)).empty());
  const Report uneven = job(1, 5);
  const std::vector<Finding> found = find(uneven);
  REQUIRE(found.size() == 1);
  CHECK(found[0].calls == 5);
}

TEST_CASE("the cost of a dry run is unknown", "[findings]") {
  Report report = report_of(item("cuda:0", 12));
  report.dry_run = EmulatedDevice{"sm_90", {}, 1};
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].cost_ns == 0);
}

TEST_CASE("imports and the compiler of torch.compile are left out", "[findings]") {
  Frame module = python_function("torch._refs.<module>", "torch/x.py");
  module.children.push_back(item("cuda:0", 12));
  CHECK(rules_in(report_of(std::move(module))).empty());
  Frame compiler =
      python_function("torch._dynamo.convert_frame.ConvertFrame.__call__", "torch/x.py");
  compiler.layer = Layer::compiler;
  compiler.children.push_back(item("cuda:0", 12));
  CHECK(rules_in(report_of(std::move(compiler))).empty());
}

TEST_CASE("copies between memory formats are found", "[findings]") {
  const auto copy = [](const Sizes& to, const Sizes& from) {
    TensorFacts self = tensor("float32", {2, 4, 8, 8}), src = self;
    self.strides = to;
    src.strides = from;
    return report_of(in_line(call("aten::copy_", 3).argument("self", self).argument("src", src)));
  };
  const Sizes contiguous = {256, 64, 8, 1}, channels_last = {256, 1, 32, 4},
              other = {256, 64, 1, 8};
  CHECK(rules_in(copy(contiguous, channels_last)) == Names{"layout-copy"});
  CHECK(rules_in(copy(channels_last, contiguous)) == Names{"layout-copy"});
  CHECK(rules_in(copy(contiguous, contiguous)).empty());
  CHECK(rules_in(copy(contiguous, other)).empty());
}

TEST_CASE("many ops on few elements are found, once for each line", "[findings]") {
  const auto calls = [](std::uint64_t count, const TensorFacts& self) {
    return report_of(call_with("aten::add.Tensor", count, self));
  };
  CHECK(rules_in(calls(1000, tensor("float32", {16, 16}))) == Names{"tiny-ops"});
  CHECK(rules_in(calls(999, tensor("float32", {16, 16}))).empty());
  CHECK(rules_in(calls(1000, tensor("float32", {16, 17}))).empty());
  CHECK(rules_in(calls(1000, tensor_without_shape())).empty());
  // The ops that an op calls are part of it.
  Frame outer = in_line(call("aten::linear", 1000));
  outer.children.push_back(call_with("aten::t", 1000, tensor("float32", {1, 1})));
  CHECK(rules_in(report_of(std::move(outer))).empty());
}

namespace {

// An op whose result is new and requires gradients.
Frame recording_op(std::uint64_t calls) {
  TensorFacts result = tensor("float32", {2, 2});
  result.requires_grad = true;
  Frame made = in_line(call("aten::linear", calls));
  dispatch_of(made).results = {Result{result, ResultRelation::fresh, ""}};
  return made;
}

Frame below(Frame above, Frame inner) {
  above.children.push_back(std::move(inner));
  return above;
}

Frame module_call(std::uint64_t calls, Frame inner) {
  return below(python_function("torch.nn.modules.module.Module._wrapped_call_impl",
                               "torch/nn/modules/module.py", calls),
               std::move(inner));
}

}  // namespace

TEST_CASE("graphs that no backward pass uses are found", "[findings]") {
  CHECK(rules_in(report_of(module_call(2, recording_op(10)))) == Names{"unused-graph"});
  CHECK(rules_in(report_of(module_call(1, recording_op(10)))).empty());
  CHECK(rules_in(report_of(module_call(2, recording_op(9)))).empty());
  Frame used = recording_op(10);
  Frame node = frame(Layer::autograd, "AddmmBackward0");
  node.detail.edit().node = NodeDetail{"AddmmBackward0", "aten::linear", {}};
  used.children.push_back(std::move(node));
  CHECK(rules_in(report_of(module_call(2, std::move(used)))).empty());
  const char* const compiled = "torch._dynamo.eval_frame._TorchDynamoContext.__call__.<locals>._fn";
  CHECK(rules_in(report_of(module_call(
                     2, below(python_function(compiled, "torch/_dynamo/eval_frame.py", 2),
                              recording_op(10)))))
            .empty());
  // The program's functions in between do not hide the line of the loop.
  Frame forward = python_function("train.Net.forward", "/home/u/net.py", 2);
  const Report report = report_of(module_call(2, below(std::move(forward), recording_op(10))));
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].file == "/home/u/train.py");
}

TEST_CASE("gradients that no op reads are found", "[findings]") {
  // A loop in which an optimizer reads gradients of 2 elements, and a parameter of 3 has one, too.
  const auto training = [](std::vector<Frame> more = {}) {
    const auto reads = [](const Sizes& shape, bool is_leaf = false) {
      TensorFacts self = tensor("float32", shape);
      self.requires_grad = is_leaf;
      return call_with("aten::add_.Tensor", 2, self);
    };
    Frame node = frame(Layer::autograd, "torch::autograd::AccumulateGrad");
    node.children.push_back(reads({2}));
    node.children.push_back(reads({3}));
    Report report = report_of(
        below(python_function("torch.autograd.graph._engine_run_backward", "torch/graph.py", 2),
              std::move(node)));
    std::vector<Frame>& calls = report.roots[0].children;
    calls.push_back(
        below(python_function("torch.optim.sgd.SGD.step", "torch/optim/sgd.py", 2), reads({2})));
    calls.push_back(reads({3}, true));
    calls.push_back(below(python_function("torch.nn.modules.linear.Linear.__init__", "torch/l.py"),
                          reads({3})));
    for (Frame& one : more) calls.push_back(std::move(one));
    return report;
  };
  const Report found = training();
  REQUIRE(rules_in(found) == Names{"unread-gradient"});
  CHECK(find(found)[0].message ==
        "`main` computes gradients that nothing reads (3 float32), 2 times in 1 call of it.");
  const auto with = [&](Frame more) { return rules_in(training(list(std::move(more)))); };
  CHECK(with(call_with("aten::norm", 1, tensor("float32", {3}))).empty());
  CHECK(with(call_with("aten::_foreach_norm.Scalar", 1,
                       std::vector<Scalar>{tensor("float32", {2}), OtherValue{"more", "9"}}))
            .empty());
  CHECK(with(call_with("aten::norm", 1, tensor("float32", {}))) == Names{"unread-gradient"});
  CHECK(with(call_with("aten::norm", 1, tensor_without_shape())).empty());
  CHECK(with(python_function("torch._dynamo.eval_frame._TorchDynamoContext.__call__.<locals>._fn",
                             "torch/_dynamo/eval_frame.py", 2))
            .empty());
  CHECK(with(python_function("torch.autograd.graph._engine_run_backward", "torch/graph.py", 2))
            .empty());
  Report once = training();
  once.roots[0].children[1].calls = 1;
  CHECK(rules_in(once).empty());
  Report lacking = training();
  lacking.shortfalls.push_back({.kind = "events_lost", .count = 1});
  CHECK(rules_in(lacking).empty());
}

TEST_CASE("tensors that depend on numbers only are found if the numbers are the same",
          "[findings]") {
  const auto calls = [](const std::string& op, std::uint64_t count) {
    return in_line(call(op, count).argument("end", 4));
  };
  CHECK(rules_in(report_of(calls("aten::arange", 10))) == Names{"repeated-op"});
  CHECK(rules_in(report_of(calls("aten::arange", 9))).empty());
  CHECK(rules_in(report_of(calls("aten::rand", 10))).empty());
  Frame varied = calls("aten::arange", 12);
  for (const std::int64_t end : {4, 5})
    dispatch_of(varied).variants.push_back({6, {{{"end", end}}}, {}, {}});
  CHECK(rules_in(report_of(std::move(varied))).empty());
}

TEST_CASE("ops on unchanged inputs are found if everything that may write is known", "[findings]") {
  const auto softmax = [](const std::string& device) {
    Frame made = call_with("aten::softmax.int", 20, tensor("float32", {2, 2}, device));
    dispatch_of(made).repeated_calls = 15;
    return made;
  };
  const auto kernel = [] { return frame(Layer::device, "softmax_warp_forward"); };
  const Report host = report_of(softmax("cpu"));
  REQUIRE(rules_in(host) == Names{"repeated-op"});
  CHECK(find(host)[0].calls == 15);
  CHECK(find(host)[0].cost_ns == 75);
  // On a device, nothing is known without its work, and a kernel of no op may write anywhere.
  CHECK(rules_in(report_of(softmax("cuda:0"))).empty());
  Report device = report_of(below(softmax("cuda:0"), kernel()));
  CHECK(rules_in(device) == Names{"repeated-op"});
  device.roots[0].children.push_back(kernel());
  CHECK(rules_in(device).empty());
  Report selected = report_of(below(softmax("cuda:0"), kernel()));
  selected.recording.has_selection = true;
  CHECK(rules_in(selected).empty());
  Report lacking = report_of(below(softmax("cuda:0"), kernel()));
  lacking.shortfalls.push_back({.kind = "device_work_missing", .count = 1});
  CHECK(rules_in(lacking).empty());
}

TEST_CASE("workers that fetch nothing are found", "[findings]") {
  using Processes = std::vector<std::uint64_t>;
  const auto loop = [](const Processes& workers, const Processes& busy) {
    Frame fetch = python_function("torch.utils.data._utils.fetch._MapDatasetFetcher.fetch",
                                  "torch/utils/data/_utils/fetch.py");
    fetch.detail.edit().processes.processes = busy;
    Frame worker = python_function("torch.utils.data._utils.worker._worker_loop",
                                   "torch/utils/data/_utils/worker.py", workers.size());
    worker.detail.edit().processes.processes = workers;
    return report_of(below(std::move(worker), std::move(fetch)));
  };
  const Report idle = loop({1, 2, 3}, {1});
  REQUIRE(rules_in(idle) == Names{"idle-worker"});
  CHECK(find(idle)[0].calls == 2);
  CHECK(rules_in(loop({1, 2, 3}, {1, 2, 3})).empty());
  CHECK(rules_in(loop({1, 2, 3}, {})).empty());
}

TEST_CASE("compilations after the first are found", "[findings]") {
  const auto compiled = [](std::uint64_t compilations) {
    Frame compiled_call =
        python_function("torch._dynamo.eval_frame._TorchDynamoContext.__call__.<locals>._fn",
                        "torch/_dynamo/eval_frame.py", 9);
    compiled_call.children.push_back(
        python_function("torch._dynamo.convert_frame.CatchErrorsWrapper",
                        "torch/_dynamo/convert_frame.py", compilations));
    compiled_call.children.back().layer = Layer::compiler;
    compiled_call.children.push_back(python_function("train.f", "/home/u/train.py", 9));
    return report_of(std::move(compiled_call));
  };
  Report three = compiled(3);
  REQUIRE(rules_in(three) == Names{"recompile"});
  CHECK(find(three)[0].calls == 2);
  three.compilations.resize(3);
  for (Compilation& one : three.compilations) one.function = "f";
  three.compilations[1].recompile_reasons = {"0/0: size mismatch"};
  three.compilations[2].function = "g";
  three.compilations[2].recompile_reasons = {"1/0: other"};
  CHECK_THAT(find(three)[0].message, Catch::Matchers::Contains("compile `f` again: size mismatch"));
  CHECK(rules_in(compiled(2)).empty());
}

namespace {

// A line that launches kernels: the calls take the host at least 4,000 ns each, and the device
// `kernel` ns on average.
struct Launches {
  std::string function = "cudaLaunchKernel";
  std::uint64_t calls = 1000;
  std::uint64_t kernel = 3999;
  std::uint64_t kernels = 1;  // Of each call.
  std::uint64_t left_out = 0;
  bool has_range = true;
};

Frame frame_of(const Launches& line) {
  const std::uint64_t kernels = line.calls * line.kernels;
  Frame device = frame(Layer::device, "at::native::vectorized_elementwise_kernel", kernels);
  device.detail.edit().duration = Duration{line.calls * line.kernel, 0, 0};
  Frame launch = frame(Layer::library, line.function, line.calls);
  launch.time = FrameTime{.total = line.calls * 9000};
  if (line.has_range) launch.time->range = FrameTime::Range{.shortest = 4000};
  launch.detail.edit().device_work_left_out = line.left_out;
  return below(in_line(call("aten::add.Tensor", line.calls)),
               below(std::move(launch), std::move(device)));
}

Report launched(const Launches& line, const std::string& file = "/home/u/train.py") {
  return report_of(frame_of(line), file);
}

}  // namespace

TEST_CASE("kernels that are shorter than their launch are found", "[findings]") {
  for (const std::string function :
       {"cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx",
        "cublasSgemm_v2", "cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasLtMatmul",
        "cudnnBackendExecute"}) {
    CAPTURE(function);
    CHECK(rules_in(launched({.function = function})) == Names{"launch-bound"});
  }
  const Report shorter = launched({.calls = 1200, .kernels = 2});
  REQUIRE(rules_in(shorter) == Names{"launch-bound"});
  CHECK(find(shorter)[0].cost_ns == 10'800'000);
  CHECK(find(shorter)[0].line == 7);
  // Lines of one function are added up.
  Report lines = launched({.calls = 600});
  Frame second = frame_of({.function = "cublasGemmEx", .calls = 500});
  second.source = FrameSource{.file = "Operators.cpp", .line = 1, .call_line = 9, .url = ""};
  lines.roots[0].children.push_back(std::move(second));
  REQUIRE(rules_in(lines) == Names{"launch-bound"});
  CHECK(find(lines)[0].lines == std::vector<std::uint32_t>{7, 9});
}

TEST_CASE("launches that only look too long are not found", "[findings]") {
  CHECK(rules_in(launched({.calls = 999})).empty());
  CHECK(rules_in(launched({.kernel = 4000})).empty());
  CHECK(rules_in(launched({.kernel = 0})).empty());  // Times were not recorded.
  CHECK(rules_in(launched({.left_out = 1})).empty());
  CHECK(rules_in(launched({.has_range = false})).empty());
  for (const std::string function :
       {"cudaMemcpyAsync", "cudaGraphLaunch", "cudaEventRecord", "cusparseSpMM", "ncclAllReduce"}) {
    CAPTURE(function);
    CHECK(rules_in(launched({.function = function})).empty());
  }
  CHECK(rules_in(launched({}, "/opt/lib/python3.11/site-packages/timm/layers/norm.py")).empty());
  Report dry = launched({.kernel = 1});
  dry.dry_run = EmulatedDevice{"sm_90", {}, 1};
  CHECK(rules_in(dry).empty());
  Report incomplete = launched({});
  incomplete.roots[0].children[0].children[0].children[0].calls = 999;
  CHECK(rules_in(incomplete).empty());
  Report step = launched({});
  Frame optimizer = python_function("torch.optim.sgd._single_tensor_sgd", "torch/optim/sgd.py");
  optimizer.children = std::move(step.roots[0].children);
  step.roots[0].children.clear();
  step.roots[0].children.push_back(std::move(optimizer));
  CHECK(rules_in(step).empty());
}

TEST_CASE("a rule is applied to each device of a process", "[findings]") {
  const auto on = [](std::uint64_t calls, const std::string& device) {
    return CallVariant{calls, {{{"self", tensor("float32", {2}, device)}}}, {}, {}};
  };
  const auto adds = [&](std::uint64_t first, std::uint64_t second) {
    Frame op = in_line(call("aten::add.Tensor", first + second));
    dispatch_of(op).variants = {on(first, "cuda:0"), on(second, "cuda:1")};
    return op;
  };
  CHECK(rules_in(report_of(adds(999, 999))).empty());
  const Report second = report_of(adds(500, 1500));
  REQUIRE(rules_in(second) == Names{"tiny-ops"});
  CHECK(find(second)[0].message ==
        "`main` calls ops on tensors of at most 256 elements on cuda:1, 1500 times in 1 call of "
        "it.");
  CHECK(find(second)[0].cost_ns == 75);
  CHECK(find(report_of(adds(1500, 1000)))[0].message.find(" on cuda:0 and cuda:1, 2500 ") !=
        std::string::npos);
  // The device that a function of CUDA waits for is not recorded.
  const auto waits = [&](std::uint64_t calls) {
    Report report = report_of(adds(1, 1));
    report.roots[0].children.push_back(
        in_line(frame(Layer::library, "cudaDeviceSynchronize", calls)));
    return rules_in(report);
  };
  CHECK(waits(2).empty());
  CHECK(waits(3) == Names{"host-wait"});
  // Each of two ranks has a device of its own.
  Report ranks = report_of(adds(1000, 1000));
  for (std::uint64_t rank = 0; rank < 2; ++rank) ranks.processes.push_back({100 + rank, rank});
  REQUIRE(rules_in(ranks) == Names{"tiny-ops"});
  CHECK(find(ranks)[0].processes == 2);
  ranks.roots[0].children[0] = adds(500, 500);
  CHECK(rules_in(ranks).empty());
}

TEST_CASE("writes that sort their indices are found in deterministic mode", "[findings]") {
  const auto write = [](bool accumulate) {
    return report_of(below(
        in_line(call("aten::_index_put_impl_").argument("accumulate", accumulate)),
        frame(Layer::kernel, "at::native::(anonymous namespace)::index_put_with_sort_kernel")));
  };
  CHECK(rules_in(write(false)) == Names{"slow-kernel"});
  CHECK(rules_in(write(true)).empty());
}

TEST_CASE("`no finding` is a rule of check", "[findings][check]") {
  const Report report = report_of(item("cuda:0", 12));
  const auto status = [&](const char* rule) {
    return status_of(check(report, KnownNames({}, nullptr), {parse_rule(rule)}));
  };
  CHECK(status("no finding") == CheckResult::Status::failed);
  CHECK(status("no finding host-wait") == CheckResult::Status::failed);
  CHECK(status("no finding tiny-ops") == CheckResult::Status::passed);
  CHECK_THROWS_AS(parse_rule("no finding tiny-opps"), Error);
  CHECK_THROWS_AS(parse_rule("no finding tiny-ops host-wait"), Error);
}

TEST_CASE("hostile details are no findings", "[findings]") {
  for (const char* const arguments :
       {"null", R"("x")", "[1, [null]]", R"([{"name": "self", "value": {"tensor": 5}}])",
        R"([{"name": 1, "value": {"tensor": {"device": "cuda:0", "dtype": "float32",
                                             "shape": [-1, 1e300], "strides": ["a", null]}}}])"}) {
    const WrittenReport read = parse_report(fmt::format(
        R"({{"schema": "optrace.report/1", "roots": [
            {{"layer": "dispatcher", "name": "at::_ops::call", "op": "aten::copy_", "calls": 5,
              "detail": {{"step": "call", "arguments": {},
                         "variants": [1, {{"calls": "x", "arguments": {{"value": 3}}}}]}},
              "children": []}}]}})",
        arguments));
    Frame copy = in_line(call("aten::copy_", 5));
    copy.detail = read.roots.at(0).detail;
    CHECK(rules_in(report_of(std::move(copy))).empty());
  }
}

TEST_CASE("the number of elements does not overflow", "[findings]") {
  TensorFacts large;
  large.shape = {1LL << 40, 1LL << 40};
  CHECK(elements_of(large) == ~0ULL);
  large.shape->push_back(0);
  CHECK(elements_of(large) == 0);
}

namespace {

// A convolution of the CPU without oneDNN: `switched_on` is what userEnabledMkldnn returned.
Report slow_convolution_of(const std::string& dtype, bool switched_on,
                           std::vector<Scalar> output_padding = {}) {
  Frame enabled = frame(Layer::runtime, "at::Context::userEnabledMkldnn");
  enabled.detail.edit().returned =
      ReturnedValues{"bool", {{switched_on, switched_on ? "true" : "false", 1}}, 0};
  Frame choice = frame(Layer::kernel, "at::native::_select_conv_backend<long>");
  choice.children.push_back(std::move(enabled));
  Frame convolution = in_line(call("aten::_convolution"));
  convolution.children.push_back(std::move(choice));
  convolution.children.push_back(call("aten::slow_conv_transpose2d")
                                     .argument("self", tensor(dtype, {2, 3, 8, 8}))
                                     .argument("stride", std::vector<Scalar>{std::int64_t{1}})
                                     .argument("output_padding", std::move(output_padding)));
  return report_of(std::move(convolution));
}

}  // namespace

TEST_CASE("convolutions without oneDNN are found if a condition excludes it", "[findings]") {
  const auto reason = [](const Report& report) {
    const std::vector<Finding> found = find(report);
    return found.size() == 1 ? found[0].reason : std::string();
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(reason(slow_convolution_of("float64", true)), Contains("no convolution of float64"));
  CHECK_THAT(reason(slow_convolution_of("float32", false)), Contains("switched off"));
  CHECK_THAT(reason(slow_convolution_of("float32", true, {std::int64_t{1}})),
             Contains("is_output_padding_big"));
  // PyTorch takes its own because it is faster.
  CHECK(rules_in(slow_convolution_of("float32", true, {std::int64_t{0}})).empty());
}

TEST_CASE("a finding says in which pass it is, and its share of the time in ops", "[findings]") {
  Frame node = frame(Layer::autograd, "ConvolutionBackward0");
  node.detail.edit().node = NodeDetail{"ConvolutionBackward0", "aten::convolution", {}};
  node.time = FrameTime{300};
  node.children.push_back(item("cuda:0", 2));
  const Report report = report_of(below(in_line(call("aten::convolution", 2)), std::move(node)));
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].pass == Pass::backward);
  CHECK_THAT(found[0].message, Catch::Matchers::Contains(" in the backward pass, 2 times"));
  CHECK(found[0].share == 0.25);  // 100 ns of 100 in the op and 300 in its derivative.
}

TEST_CASE("a finding costs no more than the ops in it", "[findings]") {
  Frame step = python_function("torch.optim.adam._single_tensor_adam", "torch/optim/adam.py", 2);
  step.time = FrameTime{1000};
  TensorFacts parameter = tensor("float32", {64});
  parameter.requires_grad = true;
  step.children.push_back(call_with("aten::add_.Tensor", 8, parameter));
  const Report report = report_of(std::move(step));
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].rule->name == "for-loop-optimizer");
  CHECK(found[0].pass == Pass::optimizer);
  CHECK(found[0].cost_ns == 100);
}

TEST_CASE("the small ops of a function's lines are one finding", "[findings]") {
  Report report;
  report.roots.push_back(python_function("train.main", "/home/u/train.py"));
  for (std::uint32_t line = 1; line <= 82; ++line) {
    Frame op = call_with("aten::add.Tensor", line == 30 ? 20 : 15, tensor("float32", {4}));
    op.source.edit().call_line = line;
    report.roots[0].children.push_back(std::move(op));
  }
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].line == 30);
  CHECK(found[0].lines.size() == 82);
  CHECK(found[0].calls == 81 * 15 + 20);
}

TEST_CASE("code of installed packages is not the program's to change", "[findings]") {
  CHECK(rules_in(report_of(item("cuda:0", 12), "/venv/lib/python3.11/site-packages/x.py")).empty());
}

TEST_CASE("graphs are unused only if the report shows all backward passes", "[findings]") {
  const auto with = [](const char* shortfall) {
    Report report = report_of(module_call(2, recording_op(10)));
    report.shortfalls.push_back({shortfall, 1});
    return rules_in(report);
  };
  CHECK(with("exit_status").empty());
  CHECK(with("events_lost").empty());
  CHECK(with("finalized_later") == Names{"unused-graph"});
  // The derivative of a custom function has no op that made it.
  Frame used = recording_op(10);
  Frame node = frame(Layer::autograd, "CubeBackward");
  node.detail.edit().node = NodeDetail{"CubeBackward", "", {}};
  used.children.push_back(std::move(node));
  CHECK(rules_in(report_of(module_call(2, std::move(used)))).empty());
}

TEST_CASE("layout copies name the op that needs another order", "[findings]") {
  const Sizes shape = {2, 4, 8, 8}, channels_last = {256, 1, 32, 4};
  const TensorFacts planar = tensor("float32", shape);
  TensorFacts striped = planar;
  striped.strides = channels_last;
  const auto copy = [](const TensorFacts& from, const TensorFacts& to) {
    return call("aten::copy_", 3).argument("self", to).argument("src", from);
  };
  const Report norm = report_of(below(
      in_line(call("aten::group_norm", 3).argument("input", striped)), copy(striped, planar)));
  REQUIRE(find(norm).size() == 1);
  CHECK_THAT(find(norm)[0].reason, Catch::Matchers::Contains("aten::group_norm has no kernel"));
  const Report convolution = report_of(
      below(in_line(call("aten::conv2d", 3).argument("input", planar).argument("weight", striped)),
            copy(planar, striped)));
  REQUIRE(find(convolution).size() == 1);
  CHECK_THAT(find(convolution)[0].reason, Catch::Matchers::Contains("its input is not"));
  // oneDNN's own order, which no order of the argument spares.
  CHECK(rules_in(report_of(below(
                     in_line(call("aten::conv1d", 3).argument("input", tensor("bfloat16", {4, 9}))),
                     copy(striped, planar))))
            .empty());
}
