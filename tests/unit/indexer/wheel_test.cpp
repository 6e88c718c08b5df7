// What is read from a torch wheel to make an index of it: its code and its torchgen's.
#include <algorithm>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <catch2/catch.hpp>

#include "indexer/store/index_store.h"
#include "indexer/store/index_writer.h"
#include "indexer/wheel/function_names.h"
#include "indexer/wheel/generated_code.h"
#include "indexer/wheel/line_mapping.h"
#include "indexer/wheel/source_match.h"
#include "indexer/wheel/wheel_code.h"
#include "platform/elf/module_symbols.h"
#include "platform/elf/source_anchors.h"
#include "platform/error.h"
#include "platform/files/private_folder.h"
#include "platform/files/whole_file.h"
#include "pytorch/installed/installed_torch.h"
#include "pytorch/source/source_files.h"
#include "tests/unit/environment_variable.h"

using namespace optrace;

namespace {

/// The torch that the tests use.
std::filesystem::path torch_folder() {
  const char* const python = std::getenv("OPTRACE_TEST_PYTHON");
  REQUIRE(python != nullptr);
  const auto torch = find_torch(python);
  REQUIRE(torch);
  return torch->folder;
}

const WheelCode& wheel() {
  static const WheelCode code = WheelCode::read(torch_folder());
  return code;
}

}  // namespace

TEST_CASE("The anchors of a library have the places that its source gives them", "[wheel]") {
  const ModuleSymbols module(torch_folder() / "lib/libc10.so");
  const std::vector<SourceAnchor> anchors = find_anchors(module);
  const auto has = [&](std::string_view file, std::uint32_t line, std::string_view message) {
    return std::ranges::any_of(anchors, [&](const SourceAnchor& anchor) {
      return path_in_tree(anchor.file) == file && anchor.line == line &&
             anchor.message.starts_with(message);
    });
  };
  CHECK(anchors.size() > 300);
  // Two uses of CAFFE_ENFORCE in PyTorch 2.6.0.
  CHECK(has("c10/core/impl/alloc_cpu.cpp", 92, "((ptrdiff_t)nbytes) >= 0"));
  CHECK(has("c10/core/impl/alloc_cpu.cpp", 118, "err == 0"));
  CHECK(std::ranges::is_sorted(anchors, {}, &SourceAnchor::call));
}

TEST_CASE("Paths of anchors are relative to the source tree", "[wheel]") {
  CHECK(path_in_tree("/pytorch/aten/src/ATen/native/Add.cpp") == "aten/src/ATen/native/Add.cpp");
  CHECK(path_in_tree("/pytorch/build/aten/src/ATen/Functions.cpp") ==
        "build/aten/src/ATen/Functions.cpp");
  CHECK(path_in_tree("/__w/pytorch/pytorch/c10/core/Device.h") == "c10/core/Device.h");
  CHECK(path_in_tree("../torch/csrc/Module.cpp") == "torch/csrc/Module.cpp");
  CHECK(path_in_tree("/pytorch/third_party/ideep/c10/x.h").empty());
  CHECK(path_in_tree("/usr/include/c++/13/vector").empty());
}

TEST_CASE("A wheel tells which functions it has", "[wheel][whole_wheel]") {
  const WheelCode& code = wheel();
  CHECK(code.contains("_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE"));
  CHECK(!code.contains("_ZN2at4_ops10add_Tensor4callEv"));
  const auto* const found = code.named("_ZN2at4_ops10add_Tensor4callE");
  REQUIRE(found != nullptr);
  CHECK(found->size() == 1);
  CHECK(code.anchors().size() > 15'000);
  CHECK(std::ranges::is_sorted(code.anchors()));
  CHECK_THROWS_AS(WheelCode::read("/nonexistent"), Error);
}

TEST_CASE("A source file matches the anchors that were compiled from it", "[wheel]") {
  const std::string text =
      "void f(int x) {\n  TORCH_CHECK(\n      x > 0,\n      \"Positive numbers only\");\n}\n";
  const WheelAnchor here{{"a.cpp", 2, 0}, "Positive numbers only"};
  CHECK(fit_of(text, here) == AnchorFit::fits);
  CHECK(fit_of("\n" + text, here) == AnchorFit::no_macro);
  CHECK(fit_of(text, {{"a.cpp", 2, 0}, "Negative"}) == AnchorFit::no_message);
  CHECK(fit_of(text, {{"a.cpp", 90, 0}, ""}) == AnchorFit::no_macro);
  // The message of another macro is where that macro is defined.
  CHECK(fit_of("  DISPATCH(x)\n", {{"a.cpp", 1, 0}, "Negative"}) == AnchorFit::fits);

  const PrivateFolder tree;
  std::filesystem::create_directories(tree.path() / "c10");
  write_file(tree.path() / "c10/a.cpp", text);
  write_file(tree.path() / "c10/b.cpp", "// A local edit.\n" + text);
  CHECK(differing_files(tree.path(), {{{"c10/a.cpp", 2, 0}, ""},
                                      {{"c10/b.cpp", 2, 0}, ""},
                                      {{"c10/missing.cpp", 2, 0}, ""}}) ==
        std::set<std::string>{"c10/b.cpp"});
}

TEST_CASE("Generated code is indexed with the wheel's symbols", "[wheel][whole_wheel]") {
  const PrivateFolder folder;
  const auto ATen = folder.path() / "build/aten/src/ATen";
  std::filesystem::create_directories(ATen);
  write_file(ATen / "Operators_0.cpp", R"code(
namespace at { namespace _ops {
at::Tensor add_Tensor::call(const at::Tensor & self, const at::Tensor & other, const at::Scalar & a) {
    static auto op = create_add_Tensor_typed_handle();
    return at::native::add_scalar_that_is_not_in_the_wheel(self);
}
}}
namespace at { namespace {
at::Tensor wrapper_CPU_made_up(const at::Tensor & self) {
    return at::_ops::add_Tensor::call(self, self, 1);
}
TORCH_LIBRARY_IMPL(aten, CPU, m) { m.impl("made_up",
TORCH_FN(wrapper_CPU_made_up)); }
}}
)code");
  write_file(ATen / "RegisterMPS_0.cpp", "namespace at { void f() { g(); } }\n");
  FunctionNames names(wheel(), {});
  const IndexContents contents = index_generated_code(folder.path(), names);
  REQUIRE(contents.functions.size() == 2);
  CHECK(contents.functions[0].symbol ==
        "_ZN2at4_ops10add_Tensor4callERKNS_6TensorES4_RKN3c106ScalarE");
  CHECK(contents.functions[0].file == "build/aten/src/ATen/Operators_0.cpp");
  CHECK(contents.functions[0].line == 3);
  REQUIRE(contents.functions[0].calls.size() == 1);
  CHECK(contents.functions[0].calls[0].callee == "_ZN2at4_ops30create_add_Tensor_typed_handleEv");
  CHECK(contents.functions[0].calls[0].line == 4);
  // The wheel has no such function, so that its definition has the names alone.
  CHECK(contents.functions[1].symbol == "_ZN2at12_GLOBAL__N_119wrapper_CPU_made_upE");
  REQUIRE(contents.functions[1].calls.size() == 1);
  CHECK(contents.functions[1].calls[0].callee == contents.functions[0].symbol);
  REQUIRE(contents.registrations.size() == 1);
  CHECK(contents.registrations[0].name == "aten::made_up");
  CHECK(contents.registrations[0].key == "CPU");
  CHECK(contents.registrations[0].function == contents.functions[1].symbol);
  CHECK(contents.registrations[0].line == 12);
}

TEST_CASE("Code that is carried over claims only what the anchors prove", "[wheel][whole_wheel]") {
  const PrivateFolder folder;
  const auto path = folder.path() / "base.index";
  // The base is this wheel's own, with five lines less before the function bmm's file.
  const std::string file = "aten/src/ATen/native/LinearAlgebra.cpp";
  IndexContents base;
  base.meta = {{"torch_version", "2.5.0"}};
  base.anchors = wheel().places();
  for (IndexedAnchor& anchor : base.anchors)
    if (anchor.file == file && anchor.line > 1000) anchor.line -= 5;
  base.anchors.push_back({"aten/src/ATen/native/Gone.cpp", 7, 7});
  const std::string int_mm = "_ZN2at6native15_int_mm_out_cpuERKNS_6TensorES3_RS1_";
  const std::string inlined = "_ZN2at6native17not_in_this_wheelERKNS_6TensorE";
  base.functions = {{int_mm, file, 3540, {{"_ZN2at6native4goneEv", 3545}, {inlined, 3546}}},
                    {inlined, file, 3541, {}},
                    {"_ZN2at6native4goneEv", "aten/src/ATen/native/Gone.cpp", 5, {}},
                    {"_ZN2at6native5knownEv", "c10/known.h", 5, {}}};
  base.registrations = {
      {RegistrationKind::kernel, "aten::_int_mm", "CPU", int_mm, file, 3542},
      {RegistrationKind::kernel, "aten::gone", "CPU", "", "aten/src/ATen/native/Gone.cpp", 3}};
  write_index(base, path);
  const Index index = Index::open(path);
  const IndexContents carried =
      carry_code(index, wheel(), [](const std::string& name) { return name == "c10/known.h"; });

  const auto find = [&](const std::string& symbol) {
    const auto found =
        std::ranges::find(carried.functions, symbol, &IndexContents::Function::symbol);
    return found == carried.functions.end() ? nullptr : &*found;
  };
  REQUIRE(find(int_mm) != nullptr);
  CHECK(find(int_mm)->line == 3545);
  CHECK(!find(int_mm)->approximate);
  CHECK(find(int_mm)->calls.at(0).line == 3550);
  REQUIRE(find(inlined) != nullptr);
  CHECK(find(inlined)->line == 3546);
  CHECK(find(inlined)->approximate);  // Nothing proves that it still exists.
  CHECK(find("_ZN2at6native4goneEv") == nullptr);
  CHECK(find("_ZN2at6native5knownEv") == nullptr);
  REQUIRE(carried.registrations.size() == 1);
  CHECK(carried.registrations[0].line == 3547);
  // A function that only the wheel has, with the lines between which it starts.
  const auto* const added =
      find("_ZN2at6nativeL19bmm_out_or_baddbmm_ERKNS_6TensorES3_S3_RKN3c106ScalarES7_b");
  const auto* const canonical =
      find("_ZN2at6native19bmm_out_or_baddbmm_ERKNS_6TensorES3_S3_RKN3c106ScalarES7_b");
  CHECK(added == nullptr);
  REQUIRE(canonical != nullptr);
  CHECK(canonical->file == file);
  REQUIRE(canonical->approximate);
  CHECK(canonical->approximate->last == canonical->line);
}
