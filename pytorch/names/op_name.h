#pragma once

#include <string>
#include <string_view>

namespace optrace {

/// A parsed op name: `aten::add_.Tensor`.
struct OpName {
  std::string space;     ///< `aten`
  std::string base;      ///< `add_`
  std::string overload;  ///< `Tensor`; empty for the overload without a name.

  std::string packet() const { return space + "::" + base; }
  std::string full() const { return overload.empty() ? packet() : packet() + "." + overload; }
};

/// Parts that the name lacks are empty: `conv2d` has only a base.
OpName split_op_name(std::string_view name);

/// Returns the name of an op in at::_ops: `add_Tensor` for `aten::add.Tensor`.
std::string unambiguous_name(std::string_view op);

}  // namespace optrace
