#pragma once

#include <string>

#include "report/report.h"

namespace optrace {

/// The report as optrace.report/1 (report.schema.json): keys in the schema's order, one frame a
/// line, UTF-8 (bytes that are none are replaced by U+FFFD), a newline at the end.
std::string to_json(const Report& report);

}  // namespace optrace
