#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace optrace {

/// Gives `visit` each line of what a program in indexer/catalogue wrote: JSON objects. A line that
/// is none, and what `visit` throws as nlohmann's exception or as Error(usage), becomes
/// Error(failed) that names `what` and the line.
void each_catalogue_line(std::string_view json_lines, std::string_view what,
                         const std::function<void(const nlohmann::json&)>& visit);

/// A text of a line that an index can hold as a name: not empty, no NUL in it.
std::string name_in(const nlohmann::json& line, const char* key);

}  // namespace optrace
