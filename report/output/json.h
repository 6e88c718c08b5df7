#pragma once

#include <optional>
#include <string>

#include <nlohmann/json.hpp>

#include "report/model/report.h"

namespace optrace {

/// The report as optrace.report/1 (report.schema.json): keys in the schema's order, one frame a
/// line, UTF-8 as write_json() has it, a newline at the end.
std::string to_json(const Report& report);

/// What `call_range` is in all of optrace's JSON: an object, or null.
nlohmann::json call_range_json(const std::optional<CallRange>& range);

}  // namespace optrace
