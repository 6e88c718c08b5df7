#pragma once

#include <span>
#include <string>

#include "indexer/store/index_store.h"
#include "report/output/report_text.h"
#include "tracer/trace/trace.h"

namespace optrace {

enum class ReportFormat { text, json };

/// Returns the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options);

/// Same for one or more traces of the processes of one job, as one report (combine()). Also throws
/// Error(usage) if they are of different torches.
std::string render(std::span<const Trace> traces, const Index* index, ReportFormat format,
                   const ReportTextOptions& options);

}  // namespace optrace
