#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace optrace {

/// A step through the dispatcher: a function such as `at::_ops::add_Tensor::call`, which torchgen
/// generates (Operators_0.cpp), or a boxed one, which Python uses to call
/// `torch.ops.aten.add.Tensor` (aten/src/ATen/core/dispatch/Dispatcher.h).
struct DispatcherStep {
  std::string_view op;  ///< The op's unambiguous name, `add_Tensor`; empty for a boxed step.
  bool redispatch = false;
};

/// Frame name for ops that no function of at::_ops calls: this template is always inlined.
inline constexpr std::string_view kUnboxedCall = "c10::Dispatcher::call";

/// Name of the step by which a boxed kernel hands an op on.
inline constexpr std::string_view kBoxedRedispatch = "c10::OperatorHandle::redispatchBoxed";

/// Returns the step that a function is. `name` is qualified.
std::optional<DispatcherStep> dispatcher_step(std::string_view name);

/// Same as dispatcher_step(), for a mangled name.
std::optional<DispatcherStep> dispatcher_step_of_symbol(std::string_view symbol);

/// Returns the op that a step of at::_ops calls: `add_Tensor` for
/// `_ZN2at4_ops10add_Tensor4callE...`. Empty for other symbols.
std::string_view dispatched_op(std::string_view symbol);

/// Returns the part that the symbols of an op's steps have in common: `2at4_ops10add_Tensor`.
std::string step_symbol_part(std::string_view unambiguous_name);

/// Returns true for the functions of namespace at::_ops, the steps included.
bool is_in_ops_namespace(std::string_view symbol);

/// Returns true for a step that takes the remaining dispatch keys in a register, as its first
/// parameter (`at::_ops::add_Tensor::redispatch(c10::DispatchKeySet, ...)`) or after `this`
/// (`c10::OperatorHandle::redispatchBoxed`).
bool takes_dispatch_keys(std::string_view symbol);

/// Returns true for the dispatcher's functions that run around or between the steps where they are
/// not inlined.
bool forwards_op(std::string_view symbol);

/// Returns true for a boxed kernel, registered or made from an unboxed one: it takes the op, the
/// dispatch keys and a stack of arguments.
bool is_boxed_kernel(std::string_view symbol);

/// Returns true if two boxed kernels, the second called by the first, are one: the second is an
/// argument of the template that the first is.
bool is_same_boxed_kernel(std::string_view caller, std::string_view called);

}  // namespace optrace
