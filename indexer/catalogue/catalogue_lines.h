#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace optrace {

/// Calls `visit` with each line of the output of a program in indexer/catalogue; each line is a
/// JSON object. Throws Error(failed) that names `what` and the line if a line is not an object, or
/// if `visit` throws nlohmann's exception or Error(usage).
void each_catalogue_line(std::string_view json_lines, std::string_view what,
                         const std::function<void(const nlohmann::json&)>& visit);

/// Returns a string of a line that an index can store as a name. Throws Error(usage) if it is empty
/// or contains a NUL.
std::string name_in(const nlohmann::json& line, const char* key);

}  // namespace optrace
