#pragma once

#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

namespace optrace {

/// Returns the parts, which are texts or numbers, with `between` between each two.
template <std::ranges::input_range Parts>
std::string joined(const Parts& parts, std::string_view between) {
  std::string text;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) text += between;
    first = false;
    if constexpr (std::is_arithmetic_v<std::ranges::range_value_t<Parts>>)
      text += std::to_string(part);
    else
      text += part;
  }
  return text;
}

}  // namespace optrace
