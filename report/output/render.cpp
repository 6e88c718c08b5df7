#include "report/output/render.h"

#include "report/merge/merge.h"
#include "report/output/call_stacks.h"
#include "report/output/html_page.h"
#include "report/output/op_table.h"
#include "report/output/path_graph.h"
#include "report/output/report_json.h"
#include "report/output/report_sqlite.h"
#include "report/output/report_text.h"
#include "report/output/summary_text.h"

namespace optrace {

bool needs_times(ReportFormat format) {
  return format == ReportFormat::summary || format == ReportFormat::csv ||
         format == ReportFormat::folded || format == ReportFormat::speedscope ||
         format == ReportFormat::sqlite || format == ReportFormat::html;
}

bool is_binary(ReportFormat format) {
  return format == ReportFormat::sqlite || format == ReportFormat::html;
}

std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options) {
  return render(
      merge(trace, index, {.all = options.all, .times = options.times || needs_times(format)}),
      format, options);
}

std::string render(const Report& report, ReportFormat format, const ReportTextOptions& options) {
  switch (format) {
    case ReportFormat::text:
      return to_text(report, options);
    case ReportFormat::summary:
      return to_summary(report, options);
    case ReportFormat::json:
      return to_json(report);
    case ReportFormat::csv:
      return to_csv(report);
    case ReportFormat::folded:
      return to_folded(report);
    case ReportFormat::speedscope:
      return to_speedscope(report);
    case ReportFormat::dot:
      return to_dot(report);
    case ReportFormat::mermaid:
      return to_mermaid(report);
    case ReportFormat::sqlite:
      return to_sqlite(report);
    case ReportFormat::html:
      return to_html_page(report, options.page, options.findings);
  }
  return {};
}

}  // namespace optrace
