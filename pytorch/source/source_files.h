#pragma once

#include <string_view>

namespace optrace {

// Files and folders of PyTorch's source tree. The build generates code below kBuiltATen and
// kGeneratedAutograd, and C shims.
inline constexpr std::string_view kATen = "aten/src/ATen/";
inline constexpr std::string_view kBuiltATen = "build/aten/src/ATen/";
inline constexpr std::string_view kCsrc = "torch/csrc/";
inline constexpr std::string_view kGeneratedAutograd = "torch/csrc/autograd/generated/";
inline constexpr std::string_view kGeneratedShims = "torch/csrc/inductor/aoti_torch/generated/";
inline constexpr std::string_view kOpsFile = "aten/src/ATen/native/native_functions.yaml";
inline constexpr std::string_view kTagsFile = "aten/src/ATen/native/tags.yaml";
/// OpFacts has only lines of it.
inline constexpr std::string_view kDerivativesFile = "tools/autograd/derivatives.yaml";

// The copies that a wheel contains, beside torch.
inline constexpr std::string_view kPackagedOpsFile =
    "torchgen/packaged/ATen/native/native_functions.yaml";
inline constexpr std::string_view kPackagedDerivativesFile =
    "torchgen/packaged/autograd/derivatives.yaml";

/// Returns true for a file that PyTorch's build generates. Neither the repository nor a fresh
/// checkout contains it.
bool is_generated_source(std::string_view file);

/// Returns the path in PyTorch's source tree of a file that was compiled in any folder:
/// `aten/src/ATen/native/Convolution.cpp`; empty for a file of another project.
std::string_view path_in_tree(std::string_view file);

/// Returns true for a file of the Python package, relative to its parent, or of torch's own C++.
constexpr bool is_file_of_torch(std::string_view file) {
  return file.starts_with("torch/");
}

}  // namespace optrace
