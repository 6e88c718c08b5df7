#pragma once

#include <array>
#include <cstddef>

#include "indexer/store/index_store.h"
#include "platform/files/output_sink.h"
#include "report/formats/html/html_page.h"
#include "report/lines/text_options.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
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
  sqlite,
  html,
  perfetto,
  gdb,
  dispatch
};

/// The names of the formats for the user, in the order of the enum.
inline constexpr std::array<const char*, 12> kReportFormats = {
    "text", "summary", "json", "csv",      "folded", "speedscope",
    "dot",  "sqlite",  "html", "perfetto", "gdb",    "dispatch"};

inline const char* name_of(ReportFormat format) {
  return kReportFormats[static_cast<std::size_t>(format)];
}

/// Returns the parts of the report that the format needs. `timeline`: the trace has one.
MergeOptions merge_options(ReportFormat format, const ReportTextOptions& options, bool timeline);

/// Returns true if the format shows the calls one by one, if the trace has them
/// (MergeOptions::timeline).
bool shows_timeline(ReportFormat format);

/// Returns true if the format shows nothing else.
bool needs_timeline(ReportFormat format);

/// Returns true if the format is for other programs than a terminal: a database, a page.
bool is_binary(ReportFormat format);

/// Writes the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
void render(const Trace& trace, const Index* index, ReportFormat format,
            const ReportTextOptions& options, OutputSink& sink);

/// Writes a report in a format.
void render(const Report& report, ReportFormat format, const ReportTextOptions& options,
            const PageOptions& page, OutputSink& sink);

}  // namespace optrace
