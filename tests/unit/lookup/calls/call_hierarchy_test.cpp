#include "lookup/calls/call_hierarchy.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "lookup/locate/cpp_lookup.h"
#include "lookup/locate/locate.h"
#include "lookup/locate/source_indexes.h"
#include "tests/unit/index_file.h"

using namespace optrace;
using namespace optrace::test;

namespace {

const std::string kOuter = "_ZN2at6native5outerEv";
const std::string kInner = "_ZN2at6native5innerEv";
const std::string kStubKernel = "_ZN2at6native12_GLOBAL__N_16kernelEv";
const std::string kStub = "_ZN2at6native8mul_stubE";
const std::string kMulWrapper = "_ZN2at12_GLOBAL__N_115wrapper_CPU_mulERKNS_6TensorES3_";
const std::string kMulCall = "_ZN2at4_ops10mul_Tensor4callERKNS_6TensorES4_";
const std::string kMulBinding = "_ZN5torch8autograd15THPVariable_mulEP7_objectS2_S2_";
const std::string kRegister = "_ZN2at34TORCH_LIBRARY_IMPL_init_aten_CPU_1Ev";

// outer calls inner, which calls outer, a stub, an op, a check and a library.
IndexContents pytorch_with_recursion() {
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}, {"git_version", std::string(40, 'a')}};
  contents.functions = {
      {kOuter, "aten/src/ATen/native/A.cpp", 10, {{kInner, 11}, {kInner, 12}}},
      {kInner,
       "aten/src/ATen/native/A.cpp",
       20,
       {{"_ZN3c105checkEv", 21},
        {kOuter, 22},
        {kStub, 23, CallKind::stub},
        {kMulCall, 24},
        {"cudnnBackendExecute", 25}}},
      {kStubKernel, "aten/src/ATen/native/cpu/K.cpp", 30, {}},
      {kStub, "aten/src/ATen/native/B.h", 40, {}, DefinitionKind::stub},
      {kMulWrapper, "build/aten/src/ATen/RegisterCPU.cpp", 50, {{kOuter, 51}}},
      {kMulBinding, "torch/csrc/autograd/generated/python.cpp", 60, {{kMulCall, 61}}},
      {kRegister,
       "build/aten/src/ATen/RegisterCPU.cpp",
       70,
       {{kMulWrapper, 71, CallKind::reference}}},
  };
  contents.registrations = {
      {RegistrationKind::kernel, "aten::mul.Tensor", "CPU", kMulWrapper,
       "build/aten/src/ATen/RegisterCPU.cpp", 71},
      {RegistrationKind::stub, kStub, "CPU.AVX2", kStubKernel, "aten/src/ATen/native/cpu/K.cpp",
       31},
  };
  contents.ops = {{"aten::mul.Tensor", "mul_Tensor", 100, ""}};
  contents.python_names = {{"torch.mul", 'b', kMulBinding, "", 0}};
  return contents;
}

class SmallCallHierarchy {
 public:
  // Returns the callers or callees of a name, one per line, indented by their depth.
  std::string calls(const std::string& name, bool callers, CallHierarchyOptions options) {
    Locator locator(index_);
    Located answer = locator.locate(name).answers.at(0);
    answer.parts.clear();
    const SourceIndexes indexes(index_);
    const EntryLocator entries(index_, {});
    CallGraph graph(indexes);
    const CppLookup cpp(entries);
    OpLookup ops(entries, cpp);
    CallHierarchy hierarchy(graph, entries, ops);
    if (callers)
      hierarchy.add_callers(answer, options);
    else
      hierarchy.add_callees(answer, options);
    return text(answer, "");
  }

 private:
  static std::string text(const Located& of, const std::string& indentation) {
    std::string lines;
    for (const Located& part : of.parts) {
      lines += indentation + part.role + " " + (part.key.empty() ? "" : part.key + " ") +
               part.name.substr(part.name.rfind(':') + 1) + " " +
               std::to_string(part.call_line == 0 ? part.line : part.call_line) +
               (part.note.empty() ? "" : " (" + part.note + ")") + "\n";
      lines += text(part, indentation + "  ");
    }
    if (of.left_out != 0) lines += indentation + "left out: " + std::to_string(of.left_out) + "\n";
    return lines;
  }

  IndexFile file_{pytorch_with_recursion()};
  Index index_ = file_.open();
};

}  // namespace

TEST_CASE("callees in the order of the calls, without checks", "[call_hierarchy]") {
  SmallCallHierarchy small;
  CHECK(small.calls("at::native::outer", false, {}) == "calls inner 11\n");
  CHECK(small.calls("at::native::inner", false, {}) ==
        "calls outer 22\n"
        "calls mul_stub 23\n"
        "calls mul.Tensor 24\n"
        "calls cudnnBackendExecute 25\n"
        "left out: 1\n");
  CHECK(small.calls("at::native::inner", false, {.all = true})
            .starts_with("calls check 21\ncalls outer 22\n"));
}

TEST_CASE("recursion ends, and a stub's callees are its kernels", "[call_hierarchy]") {
  SmallCallHierarchy small;
  CHECK(small.calls("at::native::outer", false, {.depth = 3}) ==
        "calls inner 11\n"
        "  calls outer 22 (recursion)\n"
        "  calls mul_stub 23\n"
        "    kernel CPU.AVX2 kernel 30\n"
        "  calls mul.Tensor 24\n"
        "    kernel CPU wrapper_CPU_mul 50\n"
        "  calls cudnnBackendExecute 25\n"
        "  left out: 1\n");
}

TEST_CASE("callers lead through registrations and the dispatcher to Python", "[call_hierarchy]") {
  SmallCallHierarchy small;
  CHECK(small.calls("at::native::outer", true, {.depth = 4}) ==
        "called from wrapper_CPU_mul 51\n"
        "  registered for CPU mul.Tensor 71\n"
        "    called from inner 24 (listed elsewhere)\n"
        "    called from THPVariable_mul 61\n"
        "      bound as torch.mul 0\n"
        "called from inner 22\n"
        "  called from outer 11 (recursion)\n"
        "  called from outer 12 (recursion)\n");
  CHECK(small.calls("at::native::kernel", true, {.depth = 2}) ==
        "registered for CPU.AVX2 mul_stub 31\n"
        "  called from inner 23\n");
}
