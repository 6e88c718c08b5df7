#include "report/compare/formats/comparison_json.h"

#include <string>
#include <vector>

#include "platform/text/json_members.h"
#include "platform/text/json_writer.h"
#include "report/compare/formats/comparison_output.h"
#include "report/json/report_parts_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

Json describe(const Report& report) {
  return {{"torch", null_if_empty(report.torch.version)},
          {"device", report.device},
          {"dry_run", to_json(report.dry_run)},
          {"shortfalls", to_json(report.shortfalls)}};
}

Json list_of(const std::vector<Difference>& differences) {
  Json list = Json::array();
  for (const Difference& difference : differences) list.push_back(json_of(difference));
  return list;
}

Json json_of(const std::vector<FusedLineChange>& changes) {
  Json list = Json::array();
  for (const FusedLineChange& change : changes)
    list.push_back({{"file", change.file},
                    {"line", change.line},
                    {"before", change.before},
                    {"after", change.after}});
  return list;
}

}  // namespace

Json json_of(const Difference& difference) {
  Json one = {{"kind", name_of(difference.kind)},
              {"layer", name_of(difference.layer)},
              {"path", difference.path}};
  if (difference.kind == Difference::Kind::changed) {
    one["what"] = difference.what;
    one["before"] = difference.before;
    one["after"] = difference.after;
  } else if (difference.kind == Difference::Kind::count) {
    one["before"] = std::stoull(difference.before);
    one["after"] = std::stoull(difference.after);
  } else {
    one["frames"] = difference.frames;
    one["reaches"] = difference.reaches;
  }
  return one;
}

std::string to_json(const Report& first, const Report& second, const Comparison& comparison) {
  const Json json = {
      {"schema", "optrace.comparison/1"},
      {"first", describe(first)},
      {"second", describe(second)},
      {"same_build", comparison.same_build},
      {"conclusive", comparison.conclusive},
      {"passed_over",
       {{"first", comparison.passed_over_first}, {"second", comparison.passed_over_second}}},
      {"emulated_reads", comparison.emulated_reads},
      {"differences", list_of(comparison.differences)},
      {"not_known", list_of(comparison.not_known)},
      {"fused_lines", json_of(comparison.fused_lines)}};
  return write_json(json, 1) + "\n";
}

}  // namespace optrace
