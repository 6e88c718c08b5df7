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

}  // namespace optrace
