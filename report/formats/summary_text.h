#pragma once

#include "platform/files/output_sink.h"
#include "report/lines/text_options.h"
#include "report/model/report.h"

namespace optrace {

/// Writes at most 60 lines about a program, from a report with times: what ran, the program's lines
/// that call ops, the ops, and the calls of libraries and devices. Where there is more of
/// something, it says how much, and how to see it.
void to_summary(const Report& report, const ReportTextOptions& options, OutputSink& sink);

}  // namespace optrace
