#pragma once

#include <array>
#include <string_view>

namespace optrace {

// The libraries of a wheel with functions of PyTorch, in torch/lib. Only a wheel for CUDA has
// those with `cuda` in their names.
inline constexpr std::string_view kC10 = "libc10.so";
inline constexpr std::string_view kC10Cuda = "libc10_cuda.so";
inline constexpr std::string_view kTorchCpu = "libtorch_cpu.so";
inline constexpr std::string_view kTorchCuda = "libtorch_cuda.so";
inline constexpr std::string_view kTorchCudaLinalg = "libtorch_cuda_linalg.so";
inline constexpr std::string_view kTorchPython = "libtorch_python.so";

inline constexpr auto kTorchLibraries = std::to_array<std::string_view>(
    {kC10, kC10Cuda, kTorchCpu, kTorchCuda, kTorchCudaLinalg, kTorchPython});

constexpr bool is_libtorch(std::string_view file) {
  return file.starts_with("libtorch");
}

/// Returns true for the file name of such a library, also of another build of PyTorch.
constexpr bool is_torch_library(std::string_view file) {
  return is_libtorch(file) || file.starts_with("libc10");
}

}  // namespace optrace
