#include "report/job/join.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/json_writer.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

// Throws Error(usage) if the torch of a report differs from that of the first one.
void require_same_torch(const Report& first, const Report& report) {
  if (report.torch.version == first.torch.version &&
      report.torch.git_version == first.torch.git_version)
    return;
  throw Error(ExitStatus::usage,
              fmt::format("the traces are of different versions of torch: {} and {}",
                          json_string(first.torch.version), json_string(report.torch.version)),
              "Give the traces of one job.");
}

void add_warnings(std::vector<std::string>& warnings, const std::vector<std::string>& more) {
  for (const std::string& warning : more)
    if (std::ranges::find(warnings, warning) == warnings.end()) warnings.push_back(warning);
}

// Marks the roots of a process with it, unless they are of several processes.
void mark_process(Report& report) {
  const auto& [id, rank] = report.recording.process;
  if (!report.processes.empty() || !(rank || id)) return;
  const std::uint64_t name = rank ? *rank : id.value_or(0);
  for (Frame& root : report.roots)
    root.detail.edit().processes = {.by_rank = rank.has_value(), .processes = {name}, .calls = {}};
}

}  // namespace

Report join(std::vector<Report> reports) {
  Report sum = std::move(reports.front());
  if (reports.size() == 1) return sum;
  mark_process(sum);
  std::vector<ReportProcess> processes{sum.recording.process};
  for (std::size_t i = 1; i < reports.size(); ++i) {
    Report& report = reports[i];
    require_same_torch(sum, report);
    mark_process(report);
    processes.push_back(report.recording.process);
    std::ranges::move(report.roots, std::back_inserter(sum.roots));
    sum.threads += report.threads;
    for (const Shortfall& shortfall : report.shortfalls) add_shortfall(sum.shortfalls, shortfall);
    for (const auto member : kCallTreeStatistics)
      sum.statistics.*member += report.statistics.*member;
    add_warnings(sum.recording.warnings, report.recording.warnings);
  }
  sum.processes = std::move(processes);
  sum.python_calls.reset();  // Some of the calls are those of the first process.
  return sum;
}

}  // namespace optrace
