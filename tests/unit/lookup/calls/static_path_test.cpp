#include "lookup/calls/static_path.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "indexer/store/index_writer.h"
#include "lookup/calls/followed_calls.h"
#include "lookup/explain/explain.h"
#include "lookup/explain/explain_output.h"
#include "platform/files/private_folder.h"
#include "tests/unit/index_file.h"

using namespace optrace;
using namespace optrace::test;

namespace {

/// A small PyTorch: `roll` is a composite op that calls `spin`, whose CPU kernel calls a stub and
/// whose CUDA kernel calls cuDNN and launches a device kernel.
IndexContents small_torch() {
  IndexContents contents;
  contents.meta = {{"torch_version", "2.6.0"}};
  const auto function = [&](const std::string& symbol, const std::string& file, std::uint32_t line,
                            std::vector<IndexContents::Call> calls) {
    contents.functions.push_back({symbol, file, line, std::move(calls), DefinitionKind::function});
  };
  const auto registered = [&](RegistrationKind kind, const std::string& name,
                              const std::string& key, const std::string& symbol) {
    contents.registrations.push_back({kind, name, key, symbol, "register.cpp", 7});
  };
  OpFacts roll;
  roll.schema = "roll(Tensor self) -> Tensor";
  roll.kernels = {{"CompositeImplicitAutograd", "at::native::roll", false, false}};
  OpFacts spin;
  spin.schema = "spin(Tensor(a!) self) -> Tensor(a!)";
  spin.kernels = {{"CPU", "at::native::spin_cpu", false, false},
                  {"CUDA", "at::native::spin_cuda", false, false}};
  spin.derivatives = {{"Default", "SpinBackward0", 12, {{{"self"}, "roll(grad)", 13}}, {}}};
  contents.ops = {{"aten::roll", "roll", 1, to_json(roll)},
                  {"aten::spin", "spin", 5, to_json(spin)},
                  {"aten::copy_", "copy_", 9, ""}};
  registered(RegistrationKind::kernel, "aten::roll", "CompositeImplicitAutograd",
             "_ZN2at12_GLOBAL__N_112wrapper_rollEv");
  registered(RegistrationKind::kernel, "aten::spin", "CPU", "_ZN2at12_GLOBAL__N_112wrapper_spinEv");
  registered(RegistrationKind::kernel, "aten::spin", "CUDA", "_ZN2at6native9spin_cudaEv");
  registered(RegistrationKind::kernel, "aten::copy_", "CUDA", "_ZN2at6native9copy_cudaEv");
  registered(RegistrationKind::stub, "_ZN2at6native9spin_stubE", "CPU.AVX2",
             "_ZN2at6native11spin_kernelEv");
  registered(RegistrationKind::stub, "_ZN2at6native9spin_stubE", "CPU.DEFAULT",
             "_ZN2at6native11spin_kernelEv");
  registered(RegistrationKind::stub, "_ZN2at6native9spin_stubE", "CUDA",
             "_ZN2at6native11other_thingEv");
  function("_ZN2at12_GLOBAL__N_112wrapper_rollEv", "build/RegisterX.cpp", 3,
           {{"_ZN2at6native4rollEv", 4}});
  function("_ZN2at6native4rollEv", "Roll.cpp", 10,
           {{"_ZN3c106detail4failEv", 11},
            {"_ZN2at4_ops5copy_4callEv", 12},
            {"_ZN2at4spinEv", 13},
            {"_ZN2at6native4rollEv", 14}});
  function("_ZN2at4spinEv", "build/aten/src/ATen/ops/spin.h", 20,
           {{"_ZN2at4_ops4spin4callEv", 21}});
  function("_ZN2at12_GLOBAL__N_112wrapper_spinEv", "build/RegisterCPU.cpp", 30,
           {{"_ZN2at6native8spin_cpuEv", 31}});
  function("_ZN2at6native8spin_cpuEv", "Spin.cpp", 40,
           {{"_ZN2at6native9spin_stubE", 41, CallKind::stub}, {"cudnnSpin", 42}});
  function("_ZN2at6native11spin_kernelEv", "cpu/SpinKernel.cpp", 50, {});
  function("_ZN2at6native9spin_cudaEv", "cuda/Spin.cu", 60,
           {{"cudnnSetStream", 61},
            {"cudnnSpin", 62},
            {"_ZN2at6native6devicePf", 63, CallKind::launch},
            {"ideep_no_such", 64},
            {"cblas_sgemm", 65}});
  function("_ZN2at6native9copy_cudaEv", "cuda/Copy.cu", 70, {{"cudaMemcpyAsync", 71}});
  function("_ZN5torch8autograd9generated13SpinBackward05applyEOSt6vectorIN2at6TensorESaIS5_EE",
           "torch/csrc/autograd/generated/Functions.cpp", 80, {{"_ZN2at4_ops4roll4callEv", 82}});
  return contents;
}

class SmallTorch {
 public:
  const SourceIndexes& indexes() const { return indexes_; }
  Explanation explained(const std::string& op) const {
    return explain(indexes_, find_spelled_op(indexes_, op), op, default_devices());
  }

 private:
  IndexFile file_{small_torch()};
  Index index_ = file_.open();
  SourceIndexes indexes_{index_};
};

/// An index of ops with one kernel each, built entry by entry.
class OpIndex {
 public:
  OpIndex() { contents_.meta = {{"torch_version", "2.6.0"}}; }
  void op(const std::string& name, const std::string& key, const std::string& symbol) {
    contents_.ops.push_back({"aten::" + name, name, 1, ""});
    contents_.registrations.push_back(
        {RegistrationKind::kernel, "aten::" + name, key, symbol, "register.cpp", 7});
  }
  void function(const std::string& symbol, const std::string& file,
                std::vector<IndexContents::Call> calls,
                DefinitionKind kind = DefinitionKind::function) {
    contents_.functions.push_back({symbol, file, 10, std::move(calls), kind});
  }
  IndexContents& contents() { return contents_; }
  Index open() const {
    write_index(contents_, folder_.path() / "index");
    return Index::open(folder_.path() / "index");
  }

 private:
  IndexContents contents_;
  PrivateFolder folder_;
};

std::vector<std::string> names(const StaticPath& path) {
  std::vector<std::string> names;
  names.reserve(path.steps.size());
  for (const PathStep& step : path.steps)
    names.push_back(step.kind == StepKind::op ? step.op : step.symbol);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("the way down goes through ops, their kernels for the device, and stubs") {
  const SmallTorch torch;
  StaticPaths paths(torch.indexes());
  const auto found = paths.find("aten::roll", "CPU");
  REQUIRE(found.size() == 1);
  CHECK(names(found[0]) == Names{"aten::roll", "_ZN2at12_GLOBAL__N_112wrapper_rollEv",
                                 "_ZN2at6native4rollEv", "_ZN2at4spinEv", "aten::spin",
                                 "_ZN2at12_GLOBAL__N_112wrapper_spinEv", "_ZN2at6native8spin_cpuEv",
                                 "_ZN2at6native9spin_stubE", "_ZN2at6native11spin_kernelEv"});
  const auto& steps = found[0].steps;
  CHECK(steps[3].call_line == 13);
  CHECK(steps[4].call_line == 21);
  CHECK(steps[4].note == "CPU");
  CHECK(steps[7].call_line == 41);
  CHECK(steps[8].note == "AVX2, DEFAULT");
  CHECK(steps[8].location.file == "cpu/SpinKernel.cpp");
  CHECK(found[0].library.empty());
}

TEST_CASE("libraries that compute come first, then kernels, then what only prepares") {
  const SmallTorch torch;
  StaticPaths paths(torch.indexes());
  const auto found = paths.find("aten::roll", "CUDA");
  REQUIRE(found.size() == 3);
  CHECK(names(found[0]).back() == "cudnnSpin");
  CHECK(found[0].library == "cuDNN");
  CHECK(found[0].steps.back().call_line == 62);
  CHECK(found[1].steps.back().kind == StepKind::device_kernel);
  CHECK(names(found[2]).back() == "cudnnSetStream");
  CHECK(found[2].bookkeeping);
}

TEST_CASE("ways that keep to the op's own name go before detours, and say where they stop") {
  OpIndex made;
  made.op("spin_wheel", "CompositeImplicitAutograd", "_ZN2at6native10spin_wheelEv");
  made.op("flip", "CUDA", "_ZN2at6native9flip_cudaEv");
  made.op("_flash_spin", "CUDA", "_ZN2at6native10flash_spinEv");
  made.op("_fused_spin", "CUDA", "_ZN2at6native10fused_spinEv");
  made.op("_spin_for_cpu", "CPU", "_ZN2at6native8spin_cpuEv");
  made.op("to", "CompositeImplicitAutograd", "_ZN2at6native2toEv");
  made.op("_to_copy", "CompositeImplicitAutograd", "_ZN2at6native8_to_copyEv");
  made.function("_ZN2at6native10spin_wheelEv", "Spin.cpp",
                {{"_ZN2at4_ops4flip4callEv", 11},
                 {"_ZN2at4_ops11_flash_spin4callEv", 12},
                 {"_ZN2at4_ops11_fused_spin4callEv", 13},
                 {"_ZN2at4_ops13_spin_for_cpu4callEv", 14}});
  made.function("_ZN2at6native9flip_cudaEv", "cuda/Flip.cu", {{"cudnnFlip", 11}});
  made.function("_ZN2at6native10flash_spinEv", "cuda/Spin.cu", {{"_ZN13pytorch_flash3mhaEv", 11}});
  // Calls of a library's C++ overload and of a function for each precision, as in CUDABlas.cpp.
  made.function("_ZN2at6native10fused_spinEv", "cuda/Spin.cu",
                {{"cublasDgemm_v2", 11}, {"cublasSgemm_v2", 12}, {"_Z12cublasGemmExPvi", 13}});
  made.function("_ZN2at6native8spin_cpuEv", "Spin.cpp", {});
  made.function("_ZN2at6native2toEv", "To.cpp", {{"_ZN2at4_ops8_to_copy4callEv", 11}});
  made.function("_ZN2at6native8_to_copyEv", "To.cpp", {{"cudaMemcpyAsync", 11}});
  const Index index = made.open();
  StaticPaths paths{SourceIndexes(index)};
  const auto found = paths.find("aten::spin_wheel", "CUDA");
  Names ends;
  for (const StaticPath& path : found) ends.push_back(names(path).back());
  CHECK(ends == Names{"cublasSgemm_v2", "_Z12cublasGemmExPvi", "cublasDgemm_v2",
                      "_ZN2at6native10flash_spinEv", "cudnnFlip", "aten::_spin_for_cpu"});
  CHECK(found[1].library == "cuBLAS");
  CHECK(found[3].stopped == "the index has no definition of pytorch_flash::mha, which it calls");
  CHECK(found[4].detours == 1);
  CHECK(found[5].stopped == "no kernel is registered for CUDA");
  // Ops that only make or copy tensors are followed if the path was requested for such an op.
  const auto copied = paths.find("aten::to", "CUDA");
  REQUIRE(copied.size() == 1);
  CHECK(names(copied[0]).back() == "cudaMemcpyAsync");
}

TEST_CASE("what a kernel prepares is not what it is about") {
  OpIndex made;
  const std::string stub = "_ZN2at6native12scatter_stubE";
  made.op("whirl", "CPU", "_ZN2at6native9whirl_cpuEv");
  made.op("gather_up", "CompositeImplicitAutograd", "_ZN2at6native9gather_upEv");
  made.op("fill_", "CPU", "_ZN2at6native5fill_Ev");
  made.op("scatter", "CPU", "_ZN2at6native7scatterEv");
  made.function("_ZN2at6native9whirl_cpuEv", "Whirl.cpp",
                {{"_ZN2at4_ops5fill_4callEv", 11}, {"_ZN2at6native5copy_Ev", 12}});
  made.function("_ZN2at6native9gather_upEv", "Gather.cpp", {{"_ZN2at4_ops5fill_4callEv", 11}});
  made.function("_ZN2at6native5fill_Ev", "Fill.cpp", {{"cblas_sfill", 11}});
  made.function("_ZN2at6native5copy_Ev", "Copy.cpp", {{"cblas_scopy", 11}});
  made.function("_ZN2at6native7scatterEv", "Scatter.cpp",
                {{"_ZN2at6native12scatter_implE", 11}, {stub, 11, CallKind::reference}});
  made.function("_ZN2at6native12scatter_implE", "Scatter.cpp", {});
  made.function(stub, "Scatter.h", {}, DefinitionKind::stub);
  made.function("_ZN2at6native14scatter_kernelEv", "cpu/ScatterKernel.cpp", {});
  made.contents().registrations.push_back({RegistrationKind::stub, stub, "CPU.AVX2",
                                           "_ZN2at6native14scatter_kernelEv", "register.cpp", 8});
  const Index index = made.open();
  StaticPaths paths{SourceIndexes(index)};

  const auto own_loop = paths.find("aten::whirl", "CPU");
  REQUIRE(own_loop.size() == 1);
  CHECK(names(own_loop[0]).back() == "_ZN2at6native9whirl_cpuEv");
  CHECK(own_loop[0].stopped == "the index has no library call, launch or stub below it");

  const auto only_prepares = paths.find("aten::gather_up", "CPU");
  REQUIRE(only_prepares.size() == 1);
  CHECK(names(only_prepares[0]).back() == "cblas_sfill");

  // A stub that is passed to a template counts as called.
  const auto handed_on = paths.find("aten::scatter", "CPU");
  REQUIRE(handed_on.size() == 1);
  CHECK(names(handed_on[0]) ==
        Names{"aten::scatter", "_ZN2at6native7scatterEv", stub, "_ZN2at6native14scatter_kernelEv"});
}

TEST_CASE("an op without kernel for a device leads nowhere there") {
  const SmallTorch torch;
  StaticPaths paths(torch.indexes());
  CHECK(paths.find("aten::spin", "MPS").empty());
  CHECK(paths.find("aten::none", "CPU").empty());
  CHECK(paths.find("", "").empty());
}

TEST_CASE("ops that only make or copy tensors are told by name") {
  for (const char* name : {"aten::copy_", "aten::empty.memory_format", "aten::zeros_like"})
    CHECK(is_housekeeping_op(name));
  for (const char* name : {"aten::conv2d", "aten::add.Tensor", "aten::mm", "aten::topk"})
    CHECK_FALSE(is_housekeeping_op(name));
}

TEST_CASE("the ops that a function calls are found behind PyTorch's own functions") {
  const SmallTorch torch;
  StaticPaths paths(torch.indexes());
  const auto ops = paths.ops_called("_ZN2at6native4rollEv");
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].name == "aten::spin");
  CHECK(ops[0].line == 13);
  CHECK(ops[1].name == "aten::copy_");
  CHECK(ops[1].housekeeping);
}

TEST_CASE("an explanation has the kernels behind wrappers, the stubs and the backward's ops") {
  const SmallTorch torch;
  const Explanation spin = torch.explained("spin");
  REQUIRE(spin.keys.size() > 2);
  const ExplainedKey& cpu = spin.keys[1];
  CHECK(cpu.entry.key == "CPU");
  REQUIRE(cpu.functions.size() == 2);
  CHECK(cpu.functions[0].role == "generated");
  CHECK(cpu.functions[1].name == "at::native::spin_cpu");
  CHECK(cpu.functions[1].location.line == 40);
  REQUIRE(spin.stubs.size() == 1);
  CHECK(spin.stubs[0].kernels.size() == 3);
  REQUIRE(spin.derivatives.size() == 1);
  CHECK(spin.derivatives[0].location.line == 80);
  REQUIRE(spin.derivatives[0].ops.size() == 1);
  CHECK(spin.derivatives[0].ops[0].name == "aten::roll");
  CHECK(spin.words == Names{"Changes self in place.", "Returns self itself."});
}

TEST_CASE("the text folds what only hands on, and marks lines of another version") {
  const SmallTorch torch;
  const Explanation roll = torch.explained("roll");
  IndexedSource source;
  source.version = "2.6.0";
  source.torch_version = "2.7.0";
  const std::string text = to_text(roll, source, {});
  CHECK(text.find("Roll.cpp:~10") != std::string::npos);
  CHECK(text.find("ATen/ops/spin.h") == std::string::npos);
  const std::size_t way = text.find("Call path on cpu");
  CHECK(text.find("wrapper_spin", way) == std::string::npos);
  CHECK(text.find("called at :~13", way) != std::string::npos);
  source.match = {.of_torch = true, .exact = true};
  const std::string all = to_text(roll, source, {.all = true, .style = {}});
  CHECK(all.find("ATen/ops/spin.h:20") != std::string::npos);
  CHECK(all.find('~') == std::string::npos);
}

TEST_CASE("the JSON of an explanation is one object, whatever was asked") {
  const SmallTorch torch;
  IndexedSource source;
  source.version = "2.6.0";
  Explanation roll = torch.explained("roll");
  roll.asked = "a\xff\n\"b";
  const auto json = nlohmann::json::parse(to_json_line(roll, source));
  CHECK(json["schema"] == "optrace.explain/1");
  CHECK(json["op"] == "aten::roll");
  CHECK(json["torch"].is_null());
  CHECK(json["paths"].size() == 4);
  const auto failed = nlohmann::json::parse(error_to_json_line("\x80", "no", "yes"));
  CHECK(failed["error"] == "no");
}

// As in native_functions.yaml of PyTorch 2.7 and later; 2.6 has no such op.
TEST_CASE("a kernel that only the yaml names is named") {
  IndexContents contents;
  OpFacts facts;
  facts.schema = "_scaled_grouped_mm(Tensor self, Tensor mat2) -> Tensor";
  facts.kernels = {{"CUDA", "at::native::_scaled_grouped_mm_cuda", false, false}};
  contents.ops = {{"aten::_scaled_grouped_mm", "_scaled_grouped_mm", 1, to_json(facts)}};
  const IndexFile file(std::move(contents));
  const Index index = file.open();
  const SourceIndexes indexes(index);
  const Explanation it = explain(indexes, find_spelled_op(indexes, "_scaled_grouped_mm"), "", {});
  REQUIRE(it.keys.size() > 2);
  CHECK(it.keys[1].functions.empty());
  CHECK(it.keys[2].entry.key == "CUDA");
  REQUIRE(it.keys[2].functions.size() == 1);
  CHECK(it.keys[2].functions[0].name == "at::native::_scaled_grouped_mm_cuda");
  CHECK(to_text(it, {}, {}).find("_scaled_grouped_mm_cuda") != std::string::npos);
}
