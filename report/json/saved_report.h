#pragma once

#include <filesystem>

#include "report/model/report.h"

namespace optrace {

/// Returns true if a file should be read as a report: a regular file that begins like JSON.
bool is_report_file(const std::filesystem::path& path);

/// Reads a report from a JSON file with parse_report(). Fields that the JSON doesn't contain stay
/// empty: statistics, warnings, the call.
/// Throws Error(usage) if the file can't be read, is not such a report, or is too large.
Report read_report(const std::filesystem::path& path);

}  // namespace optrace
