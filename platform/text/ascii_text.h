#pragma once

#include <string_view>

namespace optrace {

// Text is compared as ASCII, in every locale.

inline bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Returns the text without the spaces, tabs and ends of lines around it.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const auto first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

}  // namespace optrace
