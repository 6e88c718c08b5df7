#pragma once

#include <array>
#include <cstddef>

#include "indexer/store/index_store.h"
#include "platform/output_sink.h"
#include "report/model/report.h"
#include "report/output/report_text.h"
#include "tracer/trace/trace.h"

namespace optrace {

enum class ReportFormat {
  text,
  summary,
  json,
  csv,
  folded,
  speedscope,
  dot,
  mermaid,
  sqlite,
  html
};

/// The names of the formats for the user, in the order of the enum.
inline constexpr std::array<const char*, 10> kReportFormats = {
    "text", "summary", "json", "csv", "folded", "speedscope", "dot", "mermaid", "sqlite", "html"};

inline const char* name_of(ReportFormat format) {
  return kReportFormats[static_cast<std::size_t>(format)];
}

/// Returns true if the report must have times (MergeOptions::times).
bool needs_times(ReportFormat format);

/// Returns true if the format is for other programs than a terminal: a database, a page.
bool is_binary(ReportFormat format);

/// Writes the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
void render(const Trace& trace, const Index* index, ReportFormat format,
            const ReportTextOptions& options, OutputSink& sink);

/// Writes a report in a format.
void render(const Report& report, ReportFormat format, const ReportTextOptions& options,
            OutputSink& sink);

}  // namespace optrace
