#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "platform/text/printable_text.h"

namespace optrace {

/// Returns the value with valid_utf8() applied to all its strings, because JSON must be UTF-8.
template <typename Json>
Json with_valid_utf8(const Json& value) {
  if (value.is_string()) return valid_utf8(value.template get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  Json valid = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, content] : value.items())
    if (value.is_array())
      valid.push_back(with_valid_utf8(content));
    else
      valid.emplace(valid_utf8(key), with_valid_utf8(content));
  return valid;
}

/// Returns the JSON text of a value with foreign strings. It can't control a terminal
/// (printable_json()). On one line if `indentation` is negative.
template <typename Json>
std::string write_json(const Json& value, int indentation = -1) {
  try {
    return printable_json(value.dump(indentation));
  } catch (const typename Json::type_error&) {  // Not UTF-8, which is rare.
    return printable_json(with_valid_utf8(value).dump(indentation));
  }
}

/// Returns the JSON text of a foreign string, quotes included, as write_json() writes it.
inline std::string json_string(std::string_view text) {
  return write_json(nlohmann::json(text));
}

}  // namespace optrace
