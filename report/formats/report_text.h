#pragma once

#include "platform/files/output_sink.h"
#include "report/lines/text_options.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the report as a tree for people: the traced call, the frames, a summary, and suggested
/// commands.
void to_text(const Report& report, const ReportTextOptions& options, OutputSink& sink);

}  // namespace optrace
