#include "indexer/sources/source_tree.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "platform/error.h"

namespace optrace {
namespace {

// The folders with the wheel's C++ sources (the rest of caffe2 is not built into release wheels).
constexpr std::array<std::string_view, 5> kRoots = {"aten/src/ATen/", "build/aten/src/ATen/",
                                                    "c10/", "caffe2/serialize/", "torch/csrc/"};

// Folders of other platforms, of tests, and of templates that are not yet C++.
constexpr std::array<std::string_view, 11> kLeftOut = {
    "/test/", "/tests/",     "/mps/",        "/metal/",   "/vulkan/",   "/xpu/",
    "/hip/",  "/benchmark/", "/benchmarks/", "/qnnpack/", "/templates/"};

// Files of other platforms that the wheels contain nevertheless: bindings, and queries that return
// false.
constexpr std::array<std::string_view, 3> kTakenIn = {
    "aten/src/ATen/metal/Context.cpp", "aten/src/ATen/vulkan/Context.cpp", "torch/csrc/mps/"};

// Libraries built on the C++ API, with headers of their own. They are separate from the rest of
// torch/csrc because the API's functions (`torch::zeros_like`) would make calls in torch::autograd
// ambiguous.
constexpr std::array<std::string_view, 5> kLibraries = {
    "torch/csrc/api/", "torch/csrc/distributed/", "torch/csrc/jit/", "torch/csrc/lazy/",
    "torch/csrc/profiler/"};

constexpr std::array<std::string_view, 4> kNeededFiles = {
    "aten/src/ATen/native/native_functions.yaml", "torchgen/gen.py",
    "tools/setup_helpers/generate_code.py", "c10/core/TensorImpl.h"};

constexpr const char* kTreeRemedy =
    "Give the top folder of a PyTorch checkout or release tarball, such as one of v2.6.0.";

bool is_source(std::string_view name) {
  return (name.ends_with(".cpp") || name.ends_with(".cc") || name.ends_with(".cu")) &&
         !name.ends_with("_test.cpp") && !name.ends_with("_test.cc") &&
         !name.ends_with("_benchmark.cpp") && !name.ends_with("Everything.cpp");
}

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

UnitGroup group_of(std::string_view name) {
  if (name.ends_with(".cu")) {
    return UnitGroup::cuda;
  }
  if (std::any_of(kLibraries.begin(), kLibraries.end(),
                  [&](auto folder) { return name.starts_with(folder); })) {
    return UnitGroup::csrc_libraries;
  }
  if (name.starts_with("torch/csrc/")) {
    return UnitGroup::csrc;
  }
  if (contains(name, "/native/cpu/") || contains(name, "/quantized/cpu/kernels/") ||
      contains(name, "/UfuncCPUKernel_")) {
    return UnitGroup::cpu_kernels;
  }
  return UnitGroup::aten;
}

}  // namespace

SourceTree open_source_tree(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    throw Error(ExitStatus::usage, fmt::format("no such folder: {}", folder.string()), kTreeRemedy);
  }
  SourceTree tree;
  tree.folder = std::filesystem::canonical(folder, error);
  if (error) {
    throw Error(ExitStatus::usage, fmt::format("{}: {}", folder.string(), error.message()),
                kTreeRemedy);
  }
  std::string text;
  std::ifstream(tree.folder / "version.txt") >> text;
  tree.version = text.substr(0, text.find_first_not_of("0123456789."));
  for (const auto needed : kNeededFiles) {
    if (tree.version.empty() || !std::filesystem::is_regular_file(tree.folder / needed, error)) {
      throw Error(ExitStatus::usage,
                  fmt::format("{} is not a complete PyTorch source tree: it has no {}",
                              folder.string(), tree.version.empty() ? "version.txt" : needed),
                  kTreeRemedy);
    }
  }
  return tree;
}

std::vector<SourceUnit> list_units(const std::filesystem::path& folder) {
  std::vector<SourceUnit> units;
  for (const auto root : kRoots) {
    std::error_code error;
    for (std::filesystem::recursive_directory_iterator at(folder / root, error), end; at != end;
         at.increment(error)) {
      if (!at->is_regular_file(error)) {
        continue;
      }
      std::string name = at->path().lexically_relative(folder).generic_string();
      const bool left_out = std::any_of(kLeftOut.begin(), kLeftOut.end(),
                                        [&](auto part) { return contains(name, part); }) &&
                            std::none_of(kTakenIn.begin(), kTakenIn.end(),
                                         [&](auto start) { return name.starts_with(start); });
      if (is_source(name) && !left_out) {
        const UnitGroup group = group_of(name);
        units.push_back({at->path(), std::move(name), group});
      }
    }
  }
  std::sort(units.begin(), units.end(),
            [](const auto& left, const auto& right) { return left.name < right.name; });
  return units;
}

std::vector<std::string> compiler_arguments(UnitGroup group, const SourceTree& tree,
                                            const std::filesystem::path& generated,
                                            const PythonInstallation& python,
                                            const std::filesystem::path& stand_ins) {
  std::vector<std::string> arguments;
  if (group == UnitGroup::cuda) {
    arguments = {"-x",
                 "cuda",
                 "--cuda-host-only",
                 "-nocudainc",
                 "-nocudalib",
                 "-include",
                 (stand_ins / "cuda/language.h").string()};
  } else {
    arguments = {"-x", "c++"};
  }
  arguments.insert(
      arguments.end(),
      {"-std=c++17", "-w", "-ferror-limit=0", "-fopenmp", "-fno-spell-checking",
       // Keeps the precompiled header of a group if a header is missing from every wheel.
       "-Xclang", "-fallow-pch-with-compiler-errors", "-DNDEBUG", "-D_GNU_SOURCE",
       fmt::format("-D_GLIBCXX_USE_CXX11_ABI={}", python.new_string_abi ? 1 : 0),
       // The definitions that release wheels are built with (CMakeLists.txt,
       // caffe2/CMakeLists.txt).
       "-DAT_PER_OPERATOR_HEADERS", "-DFMT_HEADER_ONLY=1", "-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO",
       "-DUSE_C10D_NCCL", "-DUSE_RPC", "-DUSE_TENSORPIPE", "-DUSE_CUDA", "-DUSE_CUDNN",
       "-DUSE_NCCL", "-DUSE_NUMPY", "-DUSE_KINETO", "-DUSE_EXTERNAL_MZCRC", "-DBUILD_ONEDNN_GRAPH",
       "-DUSE_FBGEMM", "-DUSE_XNNPACK", "-DUSE_PYTORCH_QNNPACK", "-DBUILD_LAZY_CUDA_LINALG",
       "-DUSE_FLASH_ATTENTION", "-DUSE_MEM_EFF_ATTENTION", "-DUSE_CUSPARSELT",
       "-DHAVE_AVX2_CPU_DEFINITION", "-DHAVE_AVX512_CPU_DEFINITION"});
  if (group == UnitGroup::cpu_kernels) {
    // The wheel contains several capabilities; AVX2 is the one that most machines use.
    arguments.insert(arguments.end(), {"-DCPU_CAPABILITY=AVX2", "-DCPU_CAPABILITY_AVX2", "-mavx2",
                                       "-mfma", "-mf16c"});
  }
  const auto include = [&](const char* option, const std::filesystem::path& folder) {
    arguments.insert(arguments.end(), {option, folder.string()});
  };
  include("-I", tree.folder);
  include("-I", tree.folder / "aten/src");
  include("-I", tree.folder / "torch/csrc/api/include");
  include("-I", tree.folder / "third_party/miniz-3.0.2");
  include("-I", generated);
  include("-I", generated / "build/aten/src");
  include("-isystem", stand_ins / "include");
  include("-isystem", python.torch_folder / "include");
  include("-isystem", python.torch_folder / "include/torch/csrc/api/include");
  for (const auto& folder : python.include_folders) {
    include("-isystem", folder);
  }
  return arguments;
}

std::string precompiled_text(UnitGroup group) {
  // Headers that many units of a group include, and headers that few include but that take long to
  // parse. A header that is missing, or that fails without its group's macros, does not affect the
  // others.
  std::string text = R"(#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Dispatch_v2.h>
#include <ATen/NamedTensorUtils.h>
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/DispatchStub.h>
#include <ATen/native/Math.h>
#include <ATen/native/ReduceOpsUtils.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/native/TensorIterator.h>
#include <torch/library.h>
)";
  switch (group) {
    case UnitGroup::aten:
      text += R"(#include <ATen/CPUFunctions.h>
#include <ATen/CUDAFunctions.h>
#include <ATen/CompositeExplicitAutogradFunctions.h>
#include <ATen/CompositeImplicitAutogradFunctions.h>
#include <ATen/MetaFunctions.h>
#include <ATen/RedispatchFunctions.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Exceptions.h>
#include <ATen/functorch/BatchRulesHelper.h>
#include <ATen/functorch/PlumbingHelper.h>
#include <ATen/quantized/Quantizer.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>
)";
      break;
    case UnitGroup::cpu_kernels:
      text += R"(#include <ATen/cpu/vec/functional.h>
#include <ATen/cpu/vec/vec.h>
#include <ATen/native/cpu/Loops.h>
#include <ATen/native/cpu/Reduce.h>
#include <ATen/native/cpu/utils.h>
)";
      break;
    case UnitGroup::csrc:
      text = R"(#include <torch/csrc/python_headers.h>
)" + text + R"(#include <ATen/RedispatchFunctions.h>
#include <ATen/functorch/BatchRulesHelper.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/FunctionsManual.h>
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/profiler.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/utils/python_arg_parsing.h>
#include <torch/csrc/autograd/utils/wrap_outputs.h>
#include <torch/csrc/dynamo/compiled_autograd.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/csrc/utils/python_arg_parser.h>
)";
      break;
    case UnitGroup::csrc_libraries:
      text = R"(#include <torch/csrc/python_headers.h>
)" + text + R"(#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/distributed/autograd/context/container.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Utils.hpp>
#include <torch/csrc/distributed/rpc/rref_context.h>
#include <torch/csrc/distributed/rpc/torchscript_functions.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/frontend/ir_emitter.h>
#include <torch/csrc/jit/frontend/sugared_value.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/alias_analysis.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/ir/subgraph_matcher.h>
#include <torch/csrc/jit/jit_log.h>
#include <torch/csrc/jit/passes/utils/subgraph_utils.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/export.h>
#include <torch/csrc/jit/serialization/import.h>
#include <torch/csrc/jit/serialization/pickler.h>
#include <torch/csrc/jit/tensorexpr/kernel.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/ts_backend/ts_node.h>
#include <torch/csrc/profiler/orchestration/observer.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/torch.h>
)";
      break;
    case UnitGroup::cuda:
      text += R"(#include <ATen/AccumulateType.h>
#include <ATen/cuda/Atomic.cuh>
#include <ATen/cuda/CUDAApplyUtils.cuh>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/cub.cuh>
#include <ATen/native/cuda/ForeachFunctors.cuh>
#include <ATen/native/cuda/JitLoops.cuh>
#include <ATen/native/cuda/Loops.cuh>
#include <ATen/native/cuda/Math.cuh>
#include <ATen/native/cuda/Reduce.cuh>
#include <c10/cuda/CUDAGuard.h>
#include <curand_kernel.h>
)";
      break;
  }
  return text;
}

std::string group_name(UnitGroup group) {
  constexpr std::array<const char*, 5> kNames = {"aten", "cpu-kernels", "csrc", "csrc-libraries",
                                                 "cuda"};
  return kNames.at(static_cast<std::size_t>(group));
}

}  // namespace optrace
