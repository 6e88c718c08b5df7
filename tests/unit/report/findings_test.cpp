#include "report/findings/findings.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "report/findings/op_tensors.h"

using namespace optrace;
using Json = nlohmann::json;

namespace {

Frame python_function(const std::string& name, const std::string& file, std::uint64_t calls = 1) {
  Frame frame;
  frame.layer = Layer::python;
  frame.name = name;
  frame.calls = calls;
  frame.source = FrameSource{.file = file, .line = 1, .call_line = {}, .url = ""};
  return frame;
}

Json tensor(const std::string& device, const Json& shape, const Json& strides) {
  return {{"tensor",
           {{"device", device}, {"dtype", "float32"}, {"shape", shape}, {"strides", strides}}}};
}

// A call of an op in line 7 that took 100 ns.
Frame op_call(const std::string& op, std::uint64_t calls, const Json& arguments) {
  Frame frame;
  frame.layer = Layer::dispatcher;
  frame.name = "at::_ops::call";
  frame.op = op;
  frame.calls = calls;
  frame.source = FrameSource{.file = "Operators.cpp", .line = 1, .call_line = 7, .url = ""};
  const Json detail = {{"step", "call"}, {"arguments", arguments}, {"time", {{"total", 100}}}};
  frame.detail = Json::parse(detail.dump());  // Numbers are unsigned, as in a file.
  return frame;
}

Frame item(const std::string& device, std::uint64_t calls) {
  return op_call("aten::_local_scalar_dense", calls,
                 {{{"name", "self"}, {"value", tensor(device, Json::array(), Json::array())}}});
}

Report report_of(Frame frame, const std::string& file = "/home/u/train.py") {
  Frame main = python_function("train.main", file);
  main.children.push_back(std::move(frame));
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

TEST_CASE("the cost of a dry run is unknown", "[findings]") {
  Report report = report_of(item("cuda:0", 12));
  report.dry_run = {{"arch", "sm_90"}};
  const std::vector<Finding> found = find(report);
  REQUIRE(found.size() == 1);
  CHECK(found[0].cost_ns == 0);
}

TEST_CASE("imports and the compiler of torch.compile are left out", "[findings]") {
  for (const char* const name :
       {"torch._refs.<module>", "torch._dynamo.convert_frame.ConvertFrame.__call__"}) {
    Frame around = python_function(name, "torch/x.py");
    around.children.push_back(item("cuda:0", 12));
    CHECK(rules_in(report_of(std::move(around))).empty());
  }
}

TEST_CASE("copies between memory formats are found", "[findings]") {
  const auto copy = [](const Json& to, const Json& from) {
    const Json shape = {2, 4, 8, 8};
    return report_of(op_call("aten::copy_", 3,
                             {{{"name", "self"}, {"value", tensor("cpu", shape, to)}},
                              {{"name", "src"}, {"value", tensor("cpu", shape, from)}}}));
  };
  const Json contiguous = {256, 64, 8, 1}, channels_last = {256, 1, 32, 4}, other = {256, 64, 1, 8};
  CHECK(rules_in(copy(contiguous, channels_last)) == Names{"layout-copy"});
  CHECK(rules_in(copy(channels_last, contiguous)) == Names{"layout-copy"});
  CHECK(rules_in(copy(contiguous, contiguous)).empty());
  CHECK(rules_in(copy(contiguous, other)).empty());
}

TEST_CASE("many ops on few elements are found, once for each line", "[findings]") {
  const auto calls = [](std::uint64_t count, const Json& shape) {
    return report_of(op_call("aten::add.Tensor", count,
                             {{{"name", "self"}, {"value", tensor("cpu", shape, {16, 1})}}}));
  };
  CHECK(rules_in(calls(1000, {16, 16})) == Names{"tiny-ops"});
  CHECK(rules_in(calls(999, {16, 16})).empty());
  CHECK(rules_in(calls(1000, {16, 17})).empty());
  CHECK(rules_in(calls(1000, "16")).empty());
  // The ops that an op calls are part of it.
  Frame outer = op_call("aten::linear", 1000, Json::array());
  outer.children.push_back(
      op_call("aten::t", 1000, {{{"name", "self"}, {"value", tensor("cpu", {1, 1}, {1, 1})}}}));
  CHECK(rules_in(report_of(std::move(outer))).empty());
}

TEST_CASE("hostile details are no findings", "[findings]") {
  for (const Json& arguments :
       {Json(), Json("x"), Json::array({1, Json::array({nullptr})}),
        Json::array({{{"name", "self"}, {"value", {{"tensor", 5}}}}}),
        Json::array({{{"name", 1}, {"value", tensor("cuda:0", {-1, 1e300}, {"a", nullptr})}}})}) {
    Frame frame = op_call("aten::copy_", 5, arguments);
    frame.detail["variants"] = {1, {{"calls", "x"}, {"arguments", {{"value", 3}}}}};
    CHECK(rules_in(report_of(std::move(frame))).empty());
  }
}

TEST_CASE("the number of elements does not overflow", "[findings]") {
  OpTensor large;
  large.shape = {1ULL << 40, 1ULL << 40};
  CHECK(elements_of(large) == ~0ULL);
  large.shape.push_back(0);
  CHECK(elements_of(large) == 0);
}
