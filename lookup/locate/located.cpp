#include "lookup/locate/located.h"

#include <array>

namespace optrace {

std::string_view name_of(LocatedKind kind) {
  constexpr std::array<std::string_view, 11> kNames = {
      "python module", "python class",  "python function", "python builtin", "op",
      "function",      "device kernel", "class",           "stub",           "library function",
      "enumeration"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace optrace
