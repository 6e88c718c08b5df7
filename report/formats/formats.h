#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "indexer/store/index_store.h"
#include "platform/files/output_sink.h"
#include "present/format.h"
#include "report/formats/html/html_page.h"
#include "report/lines/text_options.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Whether a format shows the calls one by one (MergeOptions::timeline).
enum class TimelineUse : std::uint8_t {
  none,
  if_recorded,
  required,  ///< It shows nothing else.
};

/// What a format shows of a report besides its frames.
struct ReportParts {
  bool times = false;                        ///< MergeOptions::times.
  bool entries = false;                      ///< MergeOptions::entries.
  TimelineUse timeline = TimelineUse::none;  ///< MergeOptions::timeline.
  bool source = false;                       ///< Lines of source files (FormatOptions::page).
};

/// The options of all formats.
struct FormatOptions {
  ReportTextOptions text{};
  PageOptions page{};
};

/// A format of `optrace report`. A report that is written must have the parts.
struct ReportFormat : Format<Report, FormatOptions> {
  ReportParts parts{};

  bool shows_timeline() const { return parts.timeline != TimelineUse::none; }
  bool needs_timeline() const { return parts.timeline == TimelineUse::required; }
};

/// The formats, in the order of the help.
std::span<const ReportFormat> report_formats();

/// Returns the format with a name, which must exist.
const ReportFormat& report_format(std::string_view name);

/// Returns the parts of the report that the format needs. `timeline`: the trace has one.
MergeOptions merge_options(const ReportFormat& format, const ReportTextOptions& options,
                           bool timeline);

/// Writes the report of `trace` in a format. `index` may be null. Throws Error(usage) if the trace
/// or the index is corrupt.
void render(const Trace& trace, const Index* index, const ReportFormat& format,
            const FormatOptions& options, OutputSink& sink);

}  // namespace optrace
