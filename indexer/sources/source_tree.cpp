#include "indexer/sources/source_tree.h"

#include <algorithm>
#include <fstream>
#include <string_view>
#include <system_error>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/files/installation.h"
#include "platform/files/whole_file.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

// The folders with the wheel's C++ sources (the rest of caffe2 is not built into release wheels).
constexpr std::array<std::string_view, 5> kRoots = {kATen, kBuiltATen, "c10/", "caffe2/serialize/",
                                                    kCsrc};

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
    kOpsFile, "torchgen/gen.py", "tools/setup_helpers/generate_code.py", "c10/core/TensorImpl.h"};

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
  if (name.ends_with(".cu")) return UnitGroup::cuda;
  if (std::ranges::any_of(kLibraries, [&](auto folder) { return name.starts_with(folder); }))
    return UnitGroup::csrc_libraries;
  if (name.starts_with(kCsrc)) return UnitGroup::csrc;
  if (contains(name, "/native/cpu/") || contains(name, "/quantized/cpu/kernels/") ||
      contains(name, "/UfuncCPUKernel_")) {
    return UnitGroup::cpu_kernels;
  }
  return UnitGroup::aten;
}

}  // namespace

SourceTree open_source_tree(const std::filesystem::path& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error))
    throw Error(ExitStatus::usage, fmt::format("no such folder: {}", folder.string()), kTreeRemedy);
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
      if (!at->is_regular_file(error)) continue;
      std::string name = at->path().lexically_relative(folder).generic_string();
      const bool left_out =
          std::ranges::any_of(kLeftOut, [&](auto part) { return contains(name, part); }) &&
          std::ranges::none_of(kTakenIn, [&](auto start) { return name.starts_with(start); });
      if (is_source(name) && !left_out) {
        const UnitGroup group = group_of(name);
        units.push_back({at->path(), std::move(name), group});
      }
    }
  }
  std::ranges::sort(units,
                    [](const auto& left, const auto& right) { return left.name < right.name; });
  return units;
}

std::vector<std::string> compiler_arguments(UnitGroup group, const SourceTree& tree,
                                            const std::filesystem::path& generated,
                                            const PythonInstallation& python,
                                            const std::filesystem::path& stub_headers) {
  std::vector<std::string> arguments;
  if (group == UnitGroup::cuda) {
    arguments = {"-x",
                 "cuda",
                 "--cuda-host-only",
                 "-nocudainc",
                 "-nocudalib",
                 "-include",
                 (stub_headers / "cuda/language.h").string()};
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
  include("-isystem", stub_headers / "include");
  include("-isystem", python.torch_folder / "include");
  include("-isystem", python.torch_folder / "include/torch/csrc/api/include");
  for (const auto& folder : python.include_folders) include("-isystem", folder);
  return arguments;
}

std::string group_name(UnitGroup group) {
  constexpr std::array<const char*, 5> kNames = {"aten", "cpu-kernels", "csrc", "csrc-libraries",
                                                 "cuda"};
  return kNames.at(static_cast<std::size_t>(group));
}

std::string precompiled_text(UnitGroup group) {
  const std::filesystem::path folder = data_folder() / "precompiled";
  const bool is_csrc = group == UnitGroup::csrc || group == UnitGroup::csrc_libraries;
  // Python's headers come before any other.
  std::string text = is_csrc ? "#include <torch/csrc/python_headers.h>\n" : "";
  for (const std::string& name : {std::string("common"), group_name(group)}) {
    const std::filesystem::path file = folder / (name + ".txt");
    const auto includes = read_file(file);
    if (!includes)
      throw Error(ExitStatus::failed, fmt::format("{} can't be read", file.string()),
                  "Reinstall optrace.");
    text += *includes;
  }
  return text;
}

}  // namespace optrace
