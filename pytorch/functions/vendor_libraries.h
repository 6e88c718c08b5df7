#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "pytorch/functions/probe_rule.h"
#include "pytorch/functions/visibility.h"

namespace optrace {

/// Functions of a library's interface.
struct LibraryFunctions {
  std::string_view names;  ///< Pattern of their qualified names (matches_name_glob).
  /// Nothing if they are frames of layer `library` only in a file of the library itself.
  std::optional<Visibility> visibility;
  ProbeRule probes{};
};

/// A library that PyTorch's kernels call. Patterns are those of matches_name_glob().
struct VendorLibrary {
  enum class Memory : std::uint8_t { host, device };

  std::string_view name;  ///< In the vendor's spelling: `cuDNN`. Empty: reports don't name it.
  Memory memory;          ///< Where the data is that it works on.
  /// Patterns of the names of its own files; none if it is linked into a library of PyTorch.
  std::initializer_list<std::string_view> files{};
  std::initializer_list<LibraryFunctions> functions;  ///< The first pattern that matches applies.
  /// Functions that create, configure or query objects rather than compute.
  std::initializer_list<std::string_view> bookkeeping{};
  /// Functions that are hidden in a file of the library. All others are shown there.
  std::initializer_list<std::string_view> hidden{};
};

/// The patterns of earlier libraries have precedence.
std::span<const VendorLibrary> vendor_libraries();

/// Returns if a function in a file of a vendor's library is shown; nothing for other files.
std::optional<Visibility> visibility_in_library_file(std::string_view name, std::string_view file);

/// Returns if a function of a library's interface is shown in other files; nothing for a function
/// that is no frame of layer `library` there. `name` is qualified.
std::optional<Visibility> visibility_of_library_call(std::string_view name);

/// Returns the name of the library whose interface a library frame calls, in the vendor's spelling:
/// `oneDNN`, `BLAS`, `cuDNN`. Empty if unknown.
std::string_view library_name(std::string_view name);

/// Returns true for libraries that work on host memory only. All others work on memory of CUDA
/// devices only.
bool is_host_library(std::string_view library);

/// Returns true if the name alone identifies a library's interface: `dnnl_primitive_execute`.
bool is_library_function(std::string_view name);

/// Returns true for library functions that create, configure or query objects (`cudnnSetStream`)
/// rather than compute.
bool is_library_bookkeeping(std::string_view name);

/// If the function is the `execute` of a oneDNN implementation, returns the implementation's name
/// without `dnnl::impl::`: `cpu::x64::jit_avx512_core_convolution_fwd_t<...>`.
std::optional<std::string_view> onednn_implementation(std::string_view name);

/// Returns true for functions of the CUDA runtime and driver that launch a kernel passed to them,
/// `cudaLaunchKernel`, `cuLaunchKernelEx`, and for those that nvcc puts around such a call.
bool launches_kernel(std::string_view name);

/// Returns true for functions of the CUDA runtime and driver that wait for a device:
/// `cudaStreamSynchronize`.
bool waits_for_device(std::string_view name);

}  // namespace optrace
