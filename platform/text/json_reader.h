#pragma once

// Header only and C++17, because the reader library that other programs link includes it too.

#include <cstddef>
#include <string_view>

#include <nlohmann/json.hpp>

namespace optrace {

/// Maximum nesting depth. Of all that optrace writes, only the frames of a report are nested
/// deeper.
constexpr std::size_t kMaxJsonDepth = 64;

/// Returns true if the brackets of JSON text are nested deeper than `deepest`.
inline bool is_nested_deeper(std::string_view text, std::size_t deepest) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > deepest) return true;
    } else if ((c == '}' || c == ']') && depth > 0) {
      --depth;
    }
  }
  return false;
}

/// Parses untrusted JSON text. Returns a discarded value (is_discarded(), and neither an object nor
/// an array) if the text is malformed or is nested deeper than `deepest`. The time is linear in the
/// text's size, and the value takes at most 48 bytes of memory for each byte of text. All foreign
/// JSON is read through this function or the next: nlohmann's parser with a callback takes
/// quadratic time, and copying a value that is nested too deep overflows the stack.
inline nlohmann::json read_json(std::string_view text, std::size_t deepest = kMaxJsonDepth) {
  if (is_nested_deeper(text, deepest)) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text.begin(), text.end(), nullptr, false);
}

/// Same as read_json(), for a list: returns an empty one if the text is none.
inline nlohmann::json read_json_list(std::string_view text) {
  const nlohmann::json list = read_json(text);
  return list.is_array() ? list : nlohmann::json::array();
}

/// Same as read_json(), for readers that report errors: throws nlohmann::json::exception if the
/// text is malformed or nested too deep.
inline nlohmann::json read_json_or_throw(std::string_view text) {
  if (is_nested_deeper(text, kMaxJsonDepth))
    throw nlohmann::json::out_of_range::create(408, "nested too deep",
                                               static_cast<nlohmann::json*>(nullptr));
  return nlohmann::json::parse(text.begin(), text.end());
}

}  // namespace optrace
