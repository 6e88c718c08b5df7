#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "platform/files/output_sink.h"
#include "report/formats/formats.h"
#include "report/formats/html/html_page.h"
#include "report/formats/writers.h"
#include "report/json/report_json.h"
#include "report/lines/line_layout.h"

namespace optrace {

// The formats as strings.

inline std::string to_json(const Report& report) {
  return written([&](OutputSink& sink) { to_json(report, sink); });
}

inline std::string to_text(const Report& report, const ReportTextOptions& options) {
  return written([&](OutputSink& sink) { to_text(report, {.text = options}, sink); });
}

inline std::string to_summary(const Report& report, const ReportTextOptions& options) {
  return written([&](OutputSink& sink) { to_summary(report, {.text = options}, sink); });
}

inline std::string to_csv(const Report& report) {
  return written([&](OutputSink& sink) { to_csv(report, {}, sink); });
}

inline std::string to_dispatch_trace(const Report& report) {
  return written([&](OutputSink& sink) { to_dispatch_trace(report, {}, sink); });
}

inline std::string to_folded(const Report& report) {
  return written([&](OutputSink& sink) { to_folded(report, {}, sink); });
}

inline std::string to_speedscope(const Report& report) {
  return written([&](OutputSink& sink) { to_speedscope(report, {}, sink); });
}

inline std::string to_perfetto(const Report& report) {
  return written([&](OutputSink& sink) { to_perfetto(report, {}, sink); });
}

inline std::string to_dot(const Report& report) {
  return written([&](OutputSink& sink) { to_dot(report, {}, sink); });
}

inline std::string to_html_page(const Report& report, const PageOptions& options,
                                const FindingOptions& findings) {
  return written([&](OutputSink& sink) { to_html_page(report, options, findings, sink); });
}

inline std::string lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style,
                           std::size_t width) {
  return written([&](OutputSink& sink) { lay_out(lines, style, width, sink); });
}

inline std::string render(const Trace& trace, const Index* index, std::string_view format,
                          const ReportTextOptions& options) {
  return written([&](OutputSink& sink) {
    render(trace, index, report_format(format), {.text = options}, sink);
  });
}

}  // namespace optrace
