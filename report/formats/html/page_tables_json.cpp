#include "report/formats/html/page_tables_json.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "present/terminal_text.h"
#include "pytorch/names/op_name.h"
#include "report/lines/line_layout.h"
#include "report/lines/report_header.h"
#include "report/summary/library_usage.h"
#include "report/summary/op_usage.h"
#include "report/summary/user_lines.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

Json lines_of(const Report& report) {
  Json list = Json::array();
  for (const UserLine& line : user_lines(report))
    list.push_back({{"file", line.file},
                    {"line", line.line},
                    {"function", line.file.empty() ? line.why_no_line : line.function},
                    {"calls", line.calls},
                    {"time", line.total},
                    {"ops", line.ops}});
  return list;
}

Json ops_of(const Report& report) {
  Json list = Json::array();
  for (const OpUsage& usage : op_usage(report))
    list.push_back({{"op", usage.op},
                    {"calls", usage.calls},
                    {"time", usage.total},
                    {"own_time", usage.own},
                    {"work", main_work(usage.work).name},
                    {"inputs", most_of(usage.inputs)},
                    {"kinds", usage.inputs.size()}});
  return list;
}

Json functions_of(const std::vector<FunctionUsage>& functions) {
  Json list = Json::array();
  for (const FunctionUsage& function : functions)
    list.push_back({{"library", function.library},
                    {"name", function.name},
                    {"calls", function.calls},
                    {"time", function.total}});
  return list;
}

Json copies_of(const std::vector<CopyUsage>& copies) {
  Json list = Json::array();
  for (const CopyUsage& copy : copies)
    list.push_back({{"direction", copy.direction}, {"calls", copy.calls}, {"bytes", copy.bytes}});
  return list;
}

using RowNumbers = std::unordered_map<const Frame*, std::size_t>;

RowNumbers rows_of_evidence(const std::vector<Finding>& findings,
                            const std::vector<PageRow>& rows) {
  RowNumbers numbers;
  for (const Finding& finding : findings)
    for (const Frame* const frame : finding.evidence) numbers.emplace(frame, 0);
  for (std::size_t row = 0; row < rows.size() && !numbers.empty(); ++row)
    if (const auto at = numbers.find(rows[row].frame); at != numbers.end()) at->second = row;
  return numbers;
}

Json json_of(const Finding& finding, const RowNumbers& numbers) {
  Json frames = Json::array();
  for (const Frame* const frame : finding.evidence) frames.push_back(numbers.at(frame));
  return {{"rule", finding.rule->name},
          {"title", finding.rule->title},
          {"message", finding.message},
          {"why", finding.rule->why},
          {"remedy", finding.remedy},
          {"file", finding.file},
          {"line", finding.line},
          {"function", finding.function},
          {"cost_ns", finding.cost_ns},
          {"calls", finding.calls},
          {"share", finding.share ? Json(*finding.share) : Json()},
          {"reason", finding.reason},
          {"frames", std::move(frames)}};
}

Json json_of(const OpFacts::Derivative& derivative) {
  Json formulas = Json::array();
  for (const OpFacts::Formula& formula : derivative.backward)
    formulas.push_back({{"arguments", formula.arguments}, {"formula", formula.text}});
  return {{"key", derivative.key},
          {"node", derivative.node},
          {"line", derivative.line},
          {"formulas", std::move(formulas)}};
}

Json json_of(const OpEntry& op, const OpFacts& facts, bool exact) {
  Json derivatives = Json::array();
  for (const OpFacts::Derivative& derivative : facts.derivatives)
    derivatives.push_back(json_of(derivative));
  return {{"schema", facts.schema},
          {"file", op.location.file},
          {"line", op.location.line},
          {"tags", facts.tags},
          {"structured", facts.structured},
          {"exact", exact},
          {"derivatives", std::move(derivatives)}};
}

}  // namespace

Json page_header(const Report& report) {
  const std::string text = report_header(report, {});
  Json lines = Json::array();
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    if (lines.empty())
      lines.push_back(Json::array({"", line}));
    else if (line.size() > kLabelColumns)
      lines.push_back(
          Json::array({line.substr(0, line.find_last_not_of(' ', kLabelColumns - 1) + 1),
                       line.substr(kLabelColumns)}));
  }
  return lines;
}

Json page_summary(const Report& report) {
  const LibraryUsage usage = library_usage(report);
  return {{"lines", lines_of(report)},
          {"ops", ops_of(report)},
          {"libraries", functions_of(usage.functions)},
          {"kernels", functions_of(usage.kernels)},
          {"copies", copies_of(usage.copies)}};
}

Json page_findings(const Report& report, const std::vector<PageRow>& rows,
                   const FindingOptions& options) {
  const std::vector<Finding> findings = find(report, options);
  const RowNumbers numbers = rows_of_evidence(findings, rows);
  Json list = Json::array();
  for (const Finding& finding : findings) list.push_back(json_of(finding, numbers));
  return list;
}

Json page_op_facts(const std::vector<PageRow>& rows, const Index& index, bool exact) {
  std::set<std::string_view> names;
  for (const PageRow& row : rows)
    if (const auto& op = row.frame->op) names.insert(*op);
  Json facts = Json::object();
  for (const std::string_view name : names) {
    const std::optional<OpEntry> op = index.find_op(unambiguous_name(name));
    if (op && op->name == name) facts[std::string(name)] = json_of(*op, index.facts_of(*op), exact);
  }
  return facts;
}

}  // namespace optrace
