#include "indexer/sources/source_tree.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "platform/error.h"
#include "platform/files/private_folder.h"

using namespace optrace;

namespace {

void write(const std::filesystem::path& path, const std::string& text = "") {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
}

/// Creates the minimum that is accepted as a PyTorch tree.
void make_tree(const std::filesystem::path& folder, const std::string& version = "2.6.0a0\n") {
  write(folder / "version.txt", version);
  for (const char* needed : {"aten/src/ATen/native/native_functions.yaml", "torchgen/gen.py",
                             "tools/setup_helpers/generate_code.py", "c10/core/TensorImpl.h"}) {
    write(folder / needed);
  }
}

std::string what_opening_tree_says(const std::filesystem::path& folder) {
  try {
    (void)open_source_tree(folder);
  } catch (const Error& error) {
    CHECK(error.status() == ExitStatus::usage);
    CHECK_FALSE(error.remedy().empty());
    return error.what();
  }
  return "";
}

bool has(const std::vector<std::string>& arguments, const std::string& wanted) {
  return std::find(arguments.begin(), arguments.end(), wanted) != arguments.end();
}

}  // namespace

TEST_CASE("source tree: its version is that of version.txt, without what follows the numbers") {
  const PrivateFolder folder;
  for (const auto& [text, version] : {std::pair{"2.6.0a0\n", "2.6.0"},
                                      {"2.6.0", "2.6.0"},
                                      {"2.10.1+cu124\n", "2.10.1"},
                                      {"\n 2.7.0 \n", "2.7.0"}}) {
    make_tree(folder.path(), text);
    CHECK(open_source_tree(folder.path()).version == version);
  }
}

TEST_CASE("source tree: the folder is made absolute") {
  const PrivateFolder folder;
  make_tree(folder.path() / "tree");
  const auto tree = open_source_tree(folder.path() / "tree/../tree/.");
  CHECK(tree.folder == std::filesystem::canonical(folder.path() / "tree"));
}

TEST_CASE("source tree: what is none is refused, and the missing part named") {
  const PrivateFolder folder;
  CHECK(what_opening_tree_says(folder.path() / "absent").find("no such folder") !=
        std::string::npos);
  write(folder.path() / "file");
  CHECK(what_opening_tree_says(folder.path() / "file").find("no such folder") != std::string::npos);
  CHECK(what_opening_tree_says(folder.path()).find("version.txt") != std::string::npos);
  make_tree(folder.path(), "not a version");
  CHECK(what_opening_tree_says(folder.path()).find("version.txt") != std::string::npos);
  make_tree(folder.path());
  CHECK(what_opening_tree_says(folder.path()).empty());
  std::filesystem::remove(folder.path() / "torchgen/gen.py");
  CHECK(what_opening_tree_says(folder.path()).find("torchgen/gen.py") != std::string::npos);
  // A folder of that name is not accepted in place of the file.
  std::filesystem::create_directory(folder.path() / "torchgen/gen.py");
  CHECK(what_opening_tree_says(folder.path()).find("torchgen/gen.py") != std::string::npos);
}

TEST_CASE("source tree: units are the sources of the Linux wheels, by name, each in its group") {
  const PrivateFolder folder;
  for (const char* name :
       {"torch/csrc/autograd/engine.cpp", "aten/src/ATen/native/Convolution.cpp",
        "aten/src/ATen/native/cpu/Activation.cpp", "aten/src/ATen/native/cuda/Copy.cu",
        "torch/csrc/jit/ir/ir.cpp", "torch/csrc/mps/Module.cpp", "aten/src/ATen/vulkan/Context.cpp",
        "aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp",
        "build/aten/src/ATen/UfuncCPUKernel_add.cpp", "c10/core/TensorImpl.cpp",
        "caffe2/serialize/crc.cc",
        // The names below are not units.
        "aten/src/ATen/native/mps/Copy.cpp", "aten/src/ATen/test/basic.cpp",
        "c10/core/TensorImpl.h", "caffe2/core/net.cc", "torch/csrc/jit/tensorexpr/x_test.cpp",
        "aten/src/ATen/templates/Functions.cpp", "third_party/a.cpp",
        "build/aten/src/ATen/RegisterEverything.cpp"}) {
    write(folder.path() / name);
  }
  const auto units = list_units(folder.path());
  std::vector<std::pair<std::string, UnitGroup>> found;
  for (const auto& unit : units) {
    CHECK(unit.path == folder.path() / unit.name);
    found.emplace_back(unit.name, unit.group);
  }
  CHECK(found == std::vector<std::pair<std::string, UnitGroup>>{
                     {"aten/src/ATen/native/Convolution.cpp", UnitGroup::aten},
                     {"aten/src/ATen/native/cpu/Activation.cpp", UnitGroup::cpu_kernels},
                     {"aten/src/ATen/native/cuda/Copy.cu", UnitGroup::cuda},
                     {"aten/src/ATen/native/quantized/cpu/kernels/QuantizedOpKernels.cpp",
                      UnitGroup::cpu_kernels},
                     {"aten/src/ATen/vulkan/Context.cpp", UnitGroup::aten},
                     {"build/aten/src/ATen/UfuncCPUKernel_add.cpp", UnitGroup::cpu_kernels},
                     {"c10/core/TensorImpl.cpp", UnitGroup::aten},
                     {"caffe2/serialize/crc.cc", UnitGroup::aten},
                     {"torch/csrc/autograd/engine.cpp", UnitGroup::csrc},
                     {"torch/csrc/jit/ir/ir.cpp", UnitGroup::csrc_libraries},
                     {"torch/csrc/mps/Module.cpp", UnitGroup::csrc}});
}

TEST_CASE("source tree: links that lead in circles or nowhere are no units") {
  const PrivateFolder folder;
  write(folder.path() / "c10/core/A.cpp");
  std::filesystem::create_directory_symlink(folder.path(), folder.path() / "c10/core/again");
  std::filesystem::create_symlink("gone", folder.path() / "c10/core/B.cpp");
  const auto units = list_units(folder.path());
  REQUIRE(units.size() == 1);
  CHECK(units.front().name == "c10/core/A.cpp");
}

TEST_CASE("source tree: units are compiled with the wheel's string ABI, CUDA's as host code") {
  PythonInstallation python;
  python.torch_folder = "/site/torch";
  const SourceTree tree{"/src", "2.6.0"};
  for (const bool new_abi : {false, true}) {
    python.new_string_abi = new_abi;
    for (const auto group : kUnitGroups) {
      const auto arguments = compiler_arguments(group, tree, "/generated", python, "/stub_headers");
      CHECK(has(arguments, new_abi ? "-D_GLIBCXX_USE_CXX11_ABI=1" : "-D_GLIBCXX_USE_CXX11_ABI=0"));
      CHECK(has(arguments, "--cuda-host-only") == (group == UnitGroup::cuda));
      // The tree's own headers come before the wheel's copies of them.
      const auto own = std::find(arguments.begin(), arguments.end(), "/src");
      const auto wheels = std::find(arguments.begin(), arguments.end(), "/site/torch/include");
      CHECK(own < wheels);
      CHECK(wheels != arguments.end());
    }
  }
}
