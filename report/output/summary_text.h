#pragma once

#include "platform/output_sink.h"
#include "report/model/report.h"
#include "report/output/report_text.h"

namespace optrace {

/// Writes one screen about a program, from a report with times: what ran, the program's lines that
/// call ops, the ops, and the calls of libraries and devices.
void to_summary(const Report& report, const ReportTextOptions& options, OutputSink& sink);

}  // namespace optrace
