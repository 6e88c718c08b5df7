#pragma once

#include <string>

#include <nlohmann/json.hpp>

// Only files that write the page's JSON include this header.

namespace optrace {

/// Returns the JSON text of a value for a page. The characters that printable() makes visible are
/// visible escapes in all its strings, tabs and line ends excepted.
std::string page_json(const nlohmann::json& value);

}  // namespace optrace
