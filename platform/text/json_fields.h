#pragma once

// Header only and C++17, because the reader library that other programs link includes it too.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

// Readers of the members of untrusted JSON. `object` may be any JSON. A member that is missing or
// has another type is read as an empty text, list or object, 0, or false.

/// Returns null if there is no such member. The result is valid as long as `object`.
inline const nlohmann::json& value_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

inline std::string text_at(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = value_at(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

inline std::optional<std::uint64_t> number_at(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = value_at(object, key);
  if (!value.is_number_unsigned()) return std::nullopt;
  return value.get<std::uint64_t>();
}

inline std::uint64_t count_at(const nlohmann::json& object, const char* key) {
  return number_at(object, key).value_or(0);
}

/// Same, but 0 for a number of more than 32 bits.
inline std::uint32_t line_at(const nlohmann::json& object, const char* key) {
  const std::uint64_t line = count_at(object, key);
  return line <= std::numeric_limits<std::uint32_t>::max() ? static_cast<std::uint32_t>(line) : 0;
}

inline bool flag_at(const nlohmann::json& object, const char* key) {
  return value_at(object, key) == true;
}

/// Returns nothing if there is no such truth value.
inline std::optional<bool> truth_at(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = value_at(object, key);
  if (!value.is_boolean()) return std::nullopt;
  return value.get<bool>();
}

/// The result is valid as long as `object`.
inline const nlohmann::json& object_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::object();
  const nlohmann::json& value = value_at(object, key);
  return value.is_object() ? value : kEmpty;
}

/// Same, for a list.
inline const nlohmann::json& list_at(const nlohmann::json& object, const char* key) {
  static const nlohmann::json kEmpty = nlohmann::json::array();
  const nlohmann::json& value = value_at(object, key);
  return value.is_array() ? value : kEmpty;
}

/// Returns the texts in a list.
inline std::vector<std::string> texts_at(const nlohmann::json& object, const char* key) {
  std::vector<std::string> texts;
  for (const nlohmann::json& one : list_at(object, key))
    if (one.is_string()) texts.push_back(one.get<std::string>());
  return texts;
}

}  // namespace optrace
