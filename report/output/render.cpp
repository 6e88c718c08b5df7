#include "report/output/render.h"

#include <utility>
#include <vector>

#include "report/merge/combine.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "report/output/report_json.h"
#include "report/output/report_text.h"

namespace optrace {

std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options) {
  return render(std::span(&trace, 1), index, format, options);
}

std::string render(std::span<const Trace> traces, const Index* index, ReportFormat format,
                   const ReportTextOptions& options) {
  std::vector<Report> reports;
  for (const Trace& trace : traces)
    reports.push_back(merge(trace, index, {.all = options.all, .times = options.times}));
  const Report report = combine(std::move(reports));
  return format == ReportFormat::json ? to_json(report) : to_text(report, options);
}

}  // namespace optrace
