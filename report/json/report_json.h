#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the report as optrace.report/1 (report.schema.json): keys in the schema's order, one
/// frame per line, UTF-8 as written by write_json(), a newline at the end.
void to_json(const Report& report, OutputSink& sink);

/// Returns `call_range` in the form used by all of optrace's JSON: an object, or null.
nlohmann::json call_range_json(const std::optional<CallRange>& range);

}  // namespace optrace
