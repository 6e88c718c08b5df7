#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "present/terminal_text.h"
#include "src/cache/cache_contents.h"

namespace optrace {

std::uint64_t bytes_of(const std::vector<CachePart>& parts);
std::uint64_t bytes_of(const std::vector<CleanedPart>& parts);  ///< Those that were freed.

// The answers of `optrace cache`, for people and for programs (schema optrace.cache/1).

std::string to_text(const std::vector<CachePart>& parts, const TerminalStyle& style);
std::string to_json(const std::vector<CachePart>& parts);

std::string to_text(const std::vector<CleanedPart>& parts);
std::string to_json(const std::vector<CleanedPart>& parts);

}  // namespace optrace
