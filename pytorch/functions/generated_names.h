#pragma once

#include <string_view>

namespace optrace {

// Names of the functions that PyTorch's build generates for an op.

/// The start of the name of a wrapper that torchgen puts between the dispatcher and a kernel:
/// `wrapper_CPU_add_Tensor` (torchgen/dest/register_dispatch_key.py). A dispatch key, `_` and the
/// op's unambiguous name follow.
inline constexpr std::string_view kWrapperStart = "wrapper_";

/// Returns true for a wrapper. `name` is qualified.
bool is_wrapper(std::string_view name);

/// Same as is_wrapper(), for a mangled name.
bool is_wrapper_symbol(std::string_view symbol);

/// The start of the name of the function that Python calls for an op, without namespaces:
/// `THPVariable_conv2d` (tools/autograd/gen_python_functions.py).
inline constexpr std::string_view kBindingStart = "THPVariable_";

/// Returns what follows kBindingStart in a qualified or mangled name: `conv2d`, `conv2dEP7_object`.
/// Empty for other functions.
std::string_view bound_name(std::string_view function);

}  // namespace optrace
