#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "platform/files/output_sink.h"
#include "report/output/call_stacks.h"
#include "report/output/dispatch_trace.h"
#include "report/output/html_page.h"
#include "report/output/line_layout.h"
#include "report/output/op_table.h"
#include "report/output/path_graph.h"
#include "report/output/perfetto.h"
#include "report/output/render.h"
#include "report/output/report_json.h"
#include "report/output/report_text.h"
#include "report/output/summary_text.h"

namespace optrace {

// The formats as strings.

inline std::string to_json(const Report& report) {
  return written([&](OutputSink& sink) { to_json(report, sink); });
}

inline std::string to_text(const Report& report, const ReportTextOptions& options) {
  return written([&](OutputSink& sink) { to_text(report, options, sink); });
}

inline std::string to_summary(const Report& report, const ReportTextOptions& options) {
  return written([&](OutputSink& sink) { to_summary(report, options, sink); });
}

inline std::string to_csv(const Report& report) {
  return written([&](OutputSink& sink) { to_csv(report, sink); });
}

inline std::string to_dispatch_trace(const Report& report) {
  return written([&](OutputSink& sink) { to_dispatch_trace(report, sink); });
}

inline std::string to_folded(const Report& report) {
  return written([&](OutputSink& sink) { to_folded(report, sink); });
}

inline std::string to_speedscope(const Report& report) {
  return written([&](OutputSink& sink) { to_speedscope(report, sink); });
}

inline std::string to_perfetto(const Report& report) {
  return written([&](OutputSink& sink) {
    PerfettoWriter writer(sink);
    writer.add(report);
    writer.finish();
  });
}

inline std::string to_dot(const Report& report) {
  return written([&](OutputSink& sink) { to_dot(report, sink); });
}

inline std::string to_mermaid(const Report& report) {
  return written([&](OutputSink& sink) { to_mermaid(report, sink); });
}

inline std::string to_html_page(const Report& report, const PageOptions& options,
                                const FindingOptions& findings) {
  return written([&](OutputSink& sink) { to_html_page(report, options, findings, sink); });
}

inline std::string lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style,
                           std::size_t width) {
  return written([&](OutputSink& sink) { lay_out(lines, style, width, sink); });
}

inline std::string render(const Trace& trace, const Index* index, ReportFormat format,
                          const ReportTextOptions& options) {
  return written([&](OutputSink& sink) { render(trace, index, format, options, sink); });
}

}  // namespace optrace
