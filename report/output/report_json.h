#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "report/model/report.h"

namespace optrace {

/// Returns the report as optrace.report/1 (report.schema.json): keys in the schema's order, one
/// frame per line, UTF-8 as written by write_json(), a newline at the end.
std::string to_json(const Report& report);

/// Returns `call_range` in the form used by all of optrace's JSON: an object, or null.
nlohmann::json call_range_json(const std::optional<CallRange>& range);

}  // namespace optrace
