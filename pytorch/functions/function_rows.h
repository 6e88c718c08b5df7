#pragma once

#include <span>
#include <string_view>

#include "pytorch/functions/layer.h"
#include "pytorch/functions/probe_rule.h"
#include "pytorch/functions/visibility.h"

namespace optrace {

/// What is known of PyTorch's functions with certain names. The first row that matches a function
/// gives its layer and if it is shown. Each row can select it for a probe.
struct FunctionRow {
  std::string_view name;  ///< Pattern of the qualified name (matches_name_glob).
  Layer layer = Layer::runtime;
  Visibility visibility = Visibility::if_leading;
  ProbeRule probes{};
  std::string_view library = "*";  ///< Pattern of the library's file name; for the layer only.
};

/// Names are those of PyTorch's source (aten/, c10/, torch/csrc) and of the code that torchgen and
/// tools/autograd generate. The functions of other libraries are in vendor_libraries.h.
std::span<const FunctionRow> function_rows();

}  // namespace optrace
