#pragma once

#include <array>
#include <string>

#include "indexer/store/index_store.h"
#include "report/model/report.h"
#include "report/output/report_text.h"
#include "tracer/trace/trace.h"

namespace optrace {

enum class ReportFormat { text, summary, json, csv, folded, speedscope, dot, mermaid };

/// The names of the formats for the user, in the order of the enum.
inline constexpr std::array<const char*, 8> kReportFormats = {
    "text", "summary", "json", "csv", "folded", "speedscope", "dot", "mermaid"};

/// Returns true if the report must have times (MergeOptions::times).
bool needs_times(ReportFormat format);

/// Returns the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options);

/// Returns a report in a format.
std::string render(const Report& report, ReportFormat format, const ReportTextOptions& options);

}  // namespace optrace
