#include "pytorch/names/op_name.h"

#include <algorithm>
#include <cstddef>

namespace optrace {

OpName split_op_name(std::string_view name) {
  OpName parts;
  if (const std::size_t colons = name.find("::"); colons != std::string_view::npos) {
    parts.space = name.substr(0, colons);
    name.remove_prefix(colons + 2);
  }
  const std::size_t dot = name.find('.');
  parts.base = name.substr(0, dot);
  if (dot != std::string_view::npos) parts.overload = name.substr(dot + 1);
  return parts;
}

std::string unambiguous_name(std::string_view op) {
  const std::size_t scope = op.rfind("::");
  std::string name(scope == std::string_view::npos ? op : op.substr(scope + 2));
  std::ranges::replace(name, '.', '_');
  return name;
}

}  // namespace optrace
