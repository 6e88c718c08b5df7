#include "lookup/why_not/why_not.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "pytorch/symbols/symbol_name.h"
#include "report/details/returned_in_calls.h"
#include "tests/unit/index_file.h"

using namespace optrace;
using namespace optrace::test;

namespace {

const std::string kFile = "aten/src/ATen/native/A.cpp";
const std::string kCudaWrapper = "_ZN2at12_GLOBAL__N_116wrapper_CUDA_mulERKNS_6TensorE";
const std::string kMul = "_ZN2at6native3mulERKNS_6TensorE";
const std::string kSelect = "_ZN2at6native6selectEv";
const std::string kUse = "_ZN2at6native9use_cudnnEv";
const std::string kOther = "_ZN2at6native10use_miopenEv";
const std::string kCheck = "_ZN2at6native5checkEv";
const std::string kMulHelper = "_ZN2at6native6helperEv";
const std::string kCudnn = "_ZN2at6native9cudnn_mulEv";

// mul calls cudnn_mul if select says so. select calls use_cudnn, which calls itself and check.
IndexContents pytorch_with_predicates() {
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}, {"git_version", std::string(40, 'a')}};
  contents.functions = {
      {kCudaWrapper, "build/aten/src/ATen/RegisterCUDA.cpp", 5, {{kMul, 6}}},
      {kMul, kFile, 10, {{kCheck, 11}, {kMulHelper, 12}, {kUse, 13}, {kCudnn, 14}}},
      {kMulHelper, kFile, 20, {{kSelect, 21}, {kCheck, 22}}},
      {kSelect, kFile, 30, {{kOther, 31}, {kUse, 32}}},
      {kUse, kFile, 40, {{kUse, 41}, {kCheck, 42, CallKind::reference}}},
      {kOther, kFile, 50, {{kCheck, 51}}},
      {kCheck, kFile, 60, {}},
      {kCudnn, kFile, 70, {{"cudnnBackendExecute", 71}}},
  };
  for (IndexContents::Function& function : contents.functions) {
    if (function.symbol == kSelect) function.result = "n1 at::native::Backend|Native=0|Cudnn=1";
    if (function.symbol == kUse || function.symbol == kOther || function.symbol == kCheck)
      function.result = "b1 bool";
  }
  contents.registrations = {{RegistrationKind::kernel, "aten::mul.Tensor", "CUDA", kCudaWrapper,
                             "build/aten/src/ATen/RegisterCUDA.cpp", 6}};
  contents.ops = {{"aten::mul.Tensor", "mul_Tensor", 100, ""}};
  return contents;
}

std::string text(const std::vector<Predicate>& predicates, const std::string& indentation) {
  std::string lines;
  for (const Predicate& one : predicates) {
    lines += indentation + one.name.substr(one.name.rfind(':') + 1) + " " +
             std::to_string(one.call_line) + (one.by_reference ? " reference" : "") +
             (one.listed_before ? " before" : "") + "\n";
    lines += text(one.parts, indentation + "  ");
  }
  return lines;
}

class SmallWhyNot {
 public:
  WhyNot ask(const char* backend, bool all) const {
    const SourceIndexes indexes(index_);
    return why_not(indexes, "aten::mul.Tensor", BackendName(backend), {"cpu", "cuda"}, all);
  }
  const Index& index() const { return index_; }

 private:
  IndexFile file_{pytorch_with_predicates()};
  Index index_ = file_.open();
};

}  // namespace

TEST_CASE("the predicates between an op and a backend", "[why_not]") {
  const SmallWhyNot small;
  const WhyNot answer = small.ask("cudnn", false);
  REQUIRE(answer.devices.size() == 1);  // The op has no kernel for the CPU.
  CHECK(answer.devices[0].key == "CUDA");
  REQUIRE(answer.devices[0].functions.size() == 1);
  const FunctionOnTheWay& mul = answer.devices[0].functions[0];
  CHECK(mul.name == "at::native::mul");
  CHECK(text(mul.predicates, "") ==
        "helper 12\n"
        "  select 21\n"
        "    use_miopen 31\n"
        "    use_cudnn 32\n"
        "      check 42 reference\n"
        "use_cudnn 13 before\n");
  CHECK(mul.predicates[0].type.empty());
  CHECK(mul.predicates[0].parts[0].values == std::vector<std::string>{"Cudnn"});
  REQUIRE(mul.entries.size() == 1);
  CHECK(mul.entries[0].symbol == kCudnn);
  CHECK(mul.entries[0].call_line == 14);
}

TEST_CASE("all predicates, on request", "[why_not]") {
  const SmallWhyNot small;
  const WhyNot answer = small.ask("cudnn", true);
  REQUIRE(answer.devices.size() == 1);
  CHECK(text(answer.devices[0].functions.back().predicates, "").starts_with("check 11\n"));
}

TEST_CASE("a backend that an op does not reach", "[why_not]") {
  const SmallWhyNot small;
  CHECK(small.ask("miopen", false).devices.empty());
  const SourceIndexes indexes(small.index());
  CHECK(reachable_backends(indexes, "aten::mul.Tensor", {"cpu", "cuda"}) ==
        std::vector<std::string_view>{"cudnn"});
}

TEST_CASE("what predicates returned below the calls of an op", "[why_not]") {
  const auto returning = [](bool value, std::uint64_t calls) {
    Frame frame;
    frame.symbol = kUse;
    frame.detail.edit().returned = {"bool", {{value, "", calls}}, 0};
    return frame;
  };
  Frame op;
  op.op = "aten::mul.Tensor";
  op.calls = 3;
  op.detail.edit().dispatch = DispatchDetail();
  Frame mul;
  mul.symbol = kMul;
  mul.children.push_back(returning(true, 1));
  for (const bool value : {true, false}) op.children.push_back(returning(value, 1));
  op.children.push_back(std::move(mul));
  Report report;
  report.roots.push_back(std::move(op));
  report.roots.push_back(returning(false, 9));
  const ReturnedInCalls returned(report, "aten::mul.Tensor");
  CHECK(returned.calls() == 3);
  REQUIRE(returned.of(kUse, kSelect) != nullptr);
  CHECK(returned.of(kUse, kSelect)->values ==
        std::vector<CountedResult>{{true, "", 2}, {false, "", 1}});
  CHECK(returned.of(kCheck, kUse) == nullptr);
  REQUIRE(returned.of(kUse, kMul) != nullptr);
  CHECK(returned.of(kUse, kMul)->values == std::vector<CountedResult>{{true, "", 1}});
  CHECK(ReturnedInCalls(report, "aten::add.Tensor").calls() == 0);
}
