#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

/// Writes the ops of a report as CSV (RFC 4180, with line feeds) with a header: `op`, `calls`,
/// `total_ns` (with the ops that they call) and `own_ns` (without them). Largest `own_ns` first.
/// `report` must have times (MergeOptions::times).
void to_csv(const Report& report, OutputSink& sink);

}  // namespace optrace
