#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "pytorch/functions/layer.h"

namespace optrace {

/// Controls if a frame is part of a report that does not show everything.
enum class Shown : std::uint8_t {
  always,   ///< A step of an op's path, or work done for it.
  leading,  ///< Shown only if it leads to a frame that is always shown; otherwise bookkeeping.
  never,    ///< Plumbing: replaced by the frames below it.
};

/// A function's entry in the table in layers.cpp.
struct Placement {
  Layer layer = Layer::runtime;
  Shown shown = Shown::leading;
  bool closed = false;  ///< What it calls is left out.
};

/// `name` is qualified (symbol_name.h); `library` is the file name of the module with the function.
Placement place(std::string_view name, std::string_view library);

/// Same as place(), for a Python function's qualified name.
Placement place_python(std::string_view name);

/// Returns true for the code that runs when a module of torch is imported: `torch._refs.<module>`.
bool is_torch_module(std::string_view name);

/// Returns true for the functions of torch.nn.Module that call a module's forward().
bool is_module_call(std::string_view name);

/// If the function is the `execute` of a oneDNN implementation, returns the implementation's name
/// without `dnnl::impl::`: `cpu::x64::jit_avx512_core_convolution_fwd_t<...>`.
std::optional<std::string_view> onednn_implementation(std::string_view name);

/// Returns the name of the library whose interface a library frame calls, in the vendor's spelling:
/// `oneDNN`, `BLAS`, `cuDNN`. Empty if unknown.
std::string_view library_name(std::string_view name);

/// Returns true if the name alone identifies a library's interface: `dnnl_primitive_execute`.
bool is_library_function(std::string_view name);

/// Returns true for library functions that create, configure or query objects (`cudnnSetStream`)
/// rather than compute.
bool is_library_bookkeeping(std::string_view name);

}  // namespace optrace
