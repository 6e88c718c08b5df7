#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

namespace optrace {

// Of JSON that came from a file: what is missing or of another type is empty, or 0.

std::string text_at(const nlohmann::json& object, const char* key);
std::uint64_t count_at(const nlohmann::json& object, const char* key);

}  // namespace optrace
