#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace optrace {

// These add a member to a JSON object if there is a value for it.

inline void add_member(nlohmann::json& object, const char* key, std::string_view text) {
  if (!text.empty()) object[key] = text;
}

inline void add_member(nlohmann::json& object, const char* key, std::uint64_t count) {
  if (count != 0) object[key] = count;
}

inline void add_flag(nlohmann::json& object, const char* key, bool flag) {
  if (flag) object[key] = true;
}

template <typename Value>
void add_member(nlohmann::json& object, const char* key, const std::optional<Value>& value) {
  if (value) object[key] = *value;
}

/// Returns null for an empty text.
inline nlohmann::json null_if_empty(const std::string& text) {
  return text.empty() ? nlohmann::json() : nlohmann::json(text);
}

/// Returns null for a value that is missing.
template <typename Value>
nlohmann::json value_or_null(const std::optional<Value>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

}  // namespace optrace
