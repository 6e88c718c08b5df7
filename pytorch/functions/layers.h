#pragma once

#include <string_view>

#include "pytorch/functions/layer.h"
#include "pytorch/functions/visibility.h"

namespace optrace {

/// The layer of a function, and if its frames are shown.
struct Classification {
  Layer layer = Layer::runtime;
  Visibility visibility = Visibility::if_leading;
  bool opaque = false;  ///< What it calls is left out.
};

/// `name` is qualified (symbol_name.h); `library` is the file name of the module with the function.
Classification classify(std::string_view name, std::string_view library);

/// Same as classify(), for a Python function's qualified name.
Classification classify_python(std::string_view name);

/// Returns true for the code that runs when a module of torch is imported: `torch._refs.<module>`.
bool is_torch_module(std::string_view name);

/// Returns true for the functions of torch.nn.Module that call a module's forward().
bool is_module_call(std::string_view name);

}  // namespace optrace
