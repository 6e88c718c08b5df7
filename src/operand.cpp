#include "src/operand.h"

#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "report/combine.h"
#include "report/read_report.h"
#include "report/trace_index.h"
#include "src/traced_command.h"

namespace optrace {
namespace {

Operand operand_of(std::vector<Trace> traces) {
  Operand operand{{}, std::move(traces)};
  const std::optional<Index> index = find_index_of(operand.traces.front(), nullptr);
  std::vector<Report> reports;
  for (const Trace& trace : operand.traces)
    reports.push_back(merge(trace, index ? &*index : nullptr, {}));
  operand.report = combine(std::move(reports));
  return operand;
}

/// Whether an operand names a file, there or not, and is no command: no op's name has a slash in
/// it, or ends as a file of optrace's does.
bool names_file(const std::string& operand) {
  if (std::error_code ignored; std::filesystem::exists(operand, ignored)) return true;
  const std::string_view first_word = std::string_view(operand).substr(0, operand.find(' '));
  return first_word.find('/') != std::string_view::npos || operand.ends_with(".json") ||
         operand.ends_with(".trace");
}

}  // namespace

Operand read_operand_file(const std::string& file) {
  if (is_report_file(file)) return {read_report(file), {}};
  std::vector<Trace> traces;
  traces.push_back(read_trace(file, TraceParts::without_events));
  return operand_of(std::move(traces));
}

Operand read_operand(const std::string& text) {
  return names_file(text) ? read_operand_file(text) : operand_of(trace_command(text));
}

}  // namespace optrace
