#include "report/formats/formats.h"

#include "report/formats/call_stacks.h"
#include "report/formats/dispatch_trace.h"
#include "report/formats/gdb_script.h"
#include "report/formats/html/html_page.h"
#include "report/formats/op_table.h"
#include "report/formats/path_graph.h"
#include "report/formats/perfetto.h"
#include "report/formats/report_sqlite.h"
#include "report/formats/report_text.h"
#include "report/formats/summary_text.h"
#include "report/json/report_json.h"
#include "report/merge/timeline.h"

namespace optrace {

namespace {

// Returns true if the report must have times.
bool needs_times(ReportFormat format) {
  return format == ReportFormat::summary || format == ReportFormat::csv ||
         format == ReportFormat::folded || format == ReportFormat::speedscope ||
         format == ReportFormat::sqlite || format == ReportFormat::html;
}

}  // namespace

MergeOptions merge_options(ReportFormat format, const ReportTextOptions& options, bool timeline) {
  return {.all = options.all,
          .times = options.times || needs_times(format),
          .timeline = needs_timeline(format) || (timeline && shows_timeline(format)),
          .entries = format == ReportFormat::gdb};
}

bool shows_timeline(ReportFormat format) {
  return needs_timeline(format) || format == ReportFormat::speedscope;
}

bool needs_timeline(ReportFormat format) {
  return format == ReportFormat::perfetto;
}

bool is_binary(ReportFormat format) {
  return format == ReportFormat::sqlite || format == ReportFormat::html;
}

void render(const Trace& trace, const Index* index, ReportFormat format,
            const ReportTextOptions& options, OutputSink& sink) {
  render(merge(trace, index, merge_options(format, options, has_timeline(trace))), format, options,
         {}, sink);
}

void render(const Report& report, ReportFormat format, const ReportTextOptions& options,
            const PageOptions& page, OutputSink& sink) {
  switch (format) {
    case ReportFormat::text:
      to_text(report, options, sink);
      break;
    case ReportFormat::summary:
      to_summary(report, options, sink);
      break;
    case ReportFormat::json:
      to_json(report, sink);
      break;
    case ReportFormat::csv:
      to_csv(report, sink);
      break;
    case ReportFormat::folded:
      to_folded(report, sink);
      break;
    case ReportFormat::speedscope:
      to_speedscope(report, sink);
      break;
    case ReportFormat::dot:
      to_dot(report, sink);
      break;
    case ReportFormat::sqlite:
      to_sqlite(report, sink);
      break;
    case ReportFormat::html:
      to_html_page(report, page, options.findings, sink);
      break;
    case ReportFormat::perfetto: {
      PerfettoWriter writer(sink);
      writer.add(report);
      writer.finish();
      break;
    }
    case ReportFormat::gdb:
      to_gdb(report, sink);
      break;
    case ReportFormat::dispatch:
      to_dispatch_trace(report, sink);
      break;
  }
}

}  // namespace optrace
