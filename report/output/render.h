#pragma once

#include <string>

#include "indexer/store/index_store.h"
#include "report/model/report.h"
#include "report/output/report_text.h"
#include "tracer/trace/trace.h"

namespace optrace {

enum class ReportFormat { text, json };

/// Returns the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options);

/// Returns a report in a format.
std::string render(const Report& report, ReportFormat format, const ReportTextOptions& options);

}  // namespace optrace
