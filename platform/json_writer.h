#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

namespace optrace {

/// `text` with escapes that can be seen in place of bytes that are no UTF-8, as printable() spells
/// them (`\xff`; `\udc80` for a surrogate), and all else as it is. JSON can hold only UTF-8.
/// (In printable_text.cpp.)
std::string valid_utf8(std::string_view text);

/// The same for all texts in a JSON value.
template <typename Json>
Json with_valid_utf8(const Json& value) {
  if (value.is_string()) return valid_utf8(value.template get_ref<const std::string&>());
  if (!value.is_structured()) return value;
  Json valid = value.is_array() ? Json::array() : Json::object();
  for (const auto& [key, content] : value.items()) {
    if (value.is_array())
      valid.push_back(with_valid_utf8(content));
    else
      valid.emplace(valid_utf8(key), with_valid_utf8(content));
  }
  return valid;
}

/// JSON text of a value with foreign texts in it, on one line if `indentation` is negative.
template <typename Json>
std::string write_json(const Json& value, int indentation = -1) {
  try {
    return value.dump(indentation);
  } catch (const typename Json::type_error&) {  // It is no UTF-8, which is rare.
    return with_valid_utf8(value).dump(indentation);
  }
}

}  // namespace optrace
