#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace optrace {

// For JSON that was read from a file: a value that is missing or has another type is returned as an
// empty string, object or list, or 0.

std::string text_at(const nlohmann::json& object, const char* key);
std::uint64_t count_at(const nlohmann::json& object, const char* key);
/// The result is valid as long as `object`.
const nlohmann::json& object_at(const nlohmann::json& object, const char* key);
/// Same, for a list.
const nlohmann::json& list_at(const nlohmann::json& object, const char* key);

}  // namespace optrace
