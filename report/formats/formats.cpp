#include "report/formats/formats.h"

#include <array>

#include "report/formats/writers.h"
#include "report/json/report_json.h"
#include "report/merge/timeline.h"

namespace optrace {
namespace {

void write_report_json(const Report& report, const FormatOptions&, OutputSink& sink) {
  to_json(report, sink);
}

void write_page(const Report& report, const FormatOptions& options, OutputSink& sink) {
  to_html_page(report, options.page, options.text.findings, sink);
}

constexpr std::array kFormats = {
    ReportFormat{{{"text", "the tree"}, to_text}},
    ReportFormat{{{"summary", "one screen about a program"}, to_summary}, {.times = true}},
    ReportFormat{{{"json", "schema optrace.report/1"}, write_report_json}},
    ReportFormat{{{"csv", "the ops"}, to_csv}, {.times = true}},
    ReportFormat{{{"folded", "flame graphs"}, to_folded}, {.times = true}},
    ReportFormat{{{"speedscope", "flame graphs"}, to_speedscope},
                 {.times = true, .timeline = TimelineUse::if_recorded}},
    ReportFormat{{{"dot", "the calls as a graph"}, to_dot}},
    ReportFormat{{{"sqlite", "a database for queries of your own", true}, to_sqlite},
                 {.times = true}},
    ReportFormat{{{"html", "one interactive page", true}, write_page},
                 {.times = true, .source = true}},
    ReportFormat{{{"perfetto", "each call on a time axis"}, to_perfetto},
                 {.timeline = TimelineUse::required}},
    ReportFormat{{{"gdb", "breakpoints on each step"}, to_gdb}, {.entries = true}},
    ReportFormat{{{"dispatch", "as TORCH_SHOW_DISPATCH_TRACE prints it"}, to_dispatch_trace}},
};

}  // namespace

std::span<const ReportFormat> report_formats() {
  return kFormats;
}

const ReportFormat& report_format(std::string_view name) {
  return format_named(kFormats, name);
}

MergeOptions merge_options(const ReportFormat& format, const ReportTextOptions& options,
                           bool timeline) {
  return {.all = options.all,
          .times = options.times || format.parts.times,
          .timeline = format.needs_timeline() || (timeline && format.shows_timeline()),
          .entries = format.parts.entries};
}

void render(const Trace& trace, const Index* index, const ReportFormat& format,
            const FormatOptions& options, OutputSink& sink) {
  const MergeOptions parts = merge_options(format, options.text, has_timeline(trace));
  format.write(merge(trace, index, parts), options, sink);
}

}  // namespace optrace
