#include "report/output/render.h"

#include "report/merge/merge.h"
#include "report/output/report_json.h"
#include "report/output/report_text.h"

namespace optrace {

std::string render(const Trace& trace, const Index* index, ReportFormat format,
                   const ReportTextOptions& options) {
  return render(merge(trace, index, {.all = options.all, .times = options.times}), format, options);
}

std::string render(const Report& report, ReportFormat format, const ReportTextOptions& options) {
  return format == ReportFormat::json ? to_json(report) : to_text(report, options);
}

}  // namespace optrace
