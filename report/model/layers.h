#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "report/model/report.h"

namespace optrace {

/// Whether a frame is part of the report when not everything is asked for.
enum class Shown : std::uint8_t {
  always,   ///< A step of an op's path, or work done for it.
  leading,  ///< Only if it leads to something that is always shown: bookkeeping otherwise.
  never,    ///< Plumbing: what it leads to is shown in its place.
};

/// What the table in layers.cpp says of a function.
struct Placement {
  Layer layer = Layer::runtime;
  Shown shown = Shown::leading;
};

/// `name` is qualified (symbol_name.h), `library` the file name of the module that holds it.
Placement place(std::string_view name, std::string_view library);

/// The same for a Python function by its qualified name.
Placement place_python(std::string_view name);

/// A step through the dispatcher: `at::_ops::add_Tensor::call` and its like, and the boxed ones, by
/// which Python calls `torch.ops.aten.add.Tensor` (aten/src/ATen/core/dispatch/Dispatcher.h).
struct DispatcherStep {
  std::string_view op;  ///< The op's unambiguous name, `add_Tensor`; empty for a boxed step.
  bool redispatch = false;
};
/// The step of ops that are called by no function of at::_ops: a template that is always inlined.
inline constexpr std::string_view kUnboxedCall = "c10::Dispatcher::call";

std::optional<DispatcherStep> dispatcher_step(std::string_view name);

/// The oneDNN implementation that a function belongs to, without `dnnl::impl::`, if the function is
/// an implementation's `execute`: `cpu::x64::jit_avx512_core_convolution_fwd_t<...>`.
std::optional<std::string_view> onednn_implementation(std::string_view name);

/// The library of which a library frame calls the interface, as its makers write it: `oneDNN`,
/// `BLAS`, `cuDNN`. Empty if unknown.
std::string_view library_name(std::string_view name);

/// True for a function that is a library's interface by its very name: `dnnl_primitive_execute`.
bool is_library_function(std::string_view name);

/// True for a library's functions that make, set up or ask things (`cudnnSetStream`): no work.
bool is_library_bookkeeping(std::string_view name);

/// True if `text` matches `pattern`, in which `*` stands for any characters, `%` for any but `:`,
/// and `^` for capitals and digits.
bool matches_pattern(std::string_view text, std::string_view pattern);

}  // namespace optrace
