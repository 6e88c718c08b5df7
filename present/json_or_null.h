#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include <nlohmann/json.hpp>

namespace optrace {

/// Returns null for an empty text.
inline nlohmann::ordered_json text_or_null(std::string_view text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

/// Returns null for a number that is unknown.
inline nlohmann::json number_or_null(const std::optional<std::uint64_t>& number) {
  return number ? nlohmann::json(*number) : nlohmann::json();
}

}  // namespace optrace
