#pragma once

#include <string_view>

namespace optrace {

/// Returns true if a pattern names a function (by its qualified name with or without template
/// arguments and the namespace of a CPU capability, or by the name that reports show, short_name())
/// or an op (`aten::add`, `aten::add.Tensor`, `add`).
bool names_function(std::string_view pattern, std::string_view qualified_name);
bool names_op(std::string_view pattern, std::string_view op);

}  // namespace optrace
