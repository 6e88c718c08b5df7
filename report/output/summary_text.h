#pragma once

#include <string>

#include "report/model/report.h"
#include "report/output/report_text.h"

namespace optrace {

/// Returns one screen about a program, from a report with times: what ran, the program's lines that
/// call ops, the ops, and the calls of libraries and devices.
std::string to_summary(const Report& report, const ReportTextOptions& options);

}  // namespace optrace
