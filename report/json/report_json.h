#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the report as optrace.report/1 (report.schema.json): keys in the schema's order, one
/// frame per line, UTF-8 as written by write_json(), a newline at the end.
void to_json(const Report& report, OutputSink& sink);

}  // namespace optrace
