#pragma once

#include <filesystem>

#include "report/model/report.h"

namespace optrace {

/// Whether a file is to be read as a report: a regular file that begins as JSON does.
bool is_report_file(const std::filesystem::path& path);

/// Reads a report that was written as JSON, as parse_report() does. What the JSON has no key for
/// stays empty: statistics, warnings, the call.
/// Throws Error(usage) for a file that can't be read, is no such report, or is too large.
Report read_report(const std::filesystem::path& path);

}  // namespace optrace
