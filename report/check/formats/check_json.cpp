#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "platform/text/json_members.h"
#include "platform/text/json_writer.h"
#include "report/check/formats/check_messages.h"
#include "report/check/formats/check_output.h"
#include "report/json/report_parts_json.h"

namespace optrace {
namespace {

using Json = nlohmann::json;
using Status = CheckResult::Status;

}  // namespace

std::string to_json(const Report& report, const std::vector<CheckResult>& results) {
  Json json = {{"schema", "optrace.check/1"},
               {"torch", null_if_empty(report.torch.version)},
               {"device", report.device},
               {"dry_run", to_json(report.dry_run)},
               {"shortfalls", to_json(report.shortfalls)},
               {"passed", status_of(results) == Status::passed},
               {"rules", Json::array()}};
  for (const CheckResult& result : results) {
    Json path = Json::array();
    for (const CheckStep& step : result.path) {
      const bool known = !step.file.empty() && step.line != 0;
      path.push_back({{"layer", name_of(step.layer)},
                      {"name", step.name},
                      {"file", null_if_empty(step.file)},
                      {"line", known ? Json(step.line) : Json()},
                      {"exact", known ? Json(step.exact) : Json()}});
    }
    Json places = Json::array();
    for (const CheckPlace& place : result.places)
      places.push_back({{"function", place.function},
                        {"file", place.file},
                        {"line", place.line},
                        {"call_range", to_json(place.range)},
                        {"count", place.count}});
    json["rules"].push_back({{"name", result.rule.name},
                             {"expected", result.rule.text},
                             {"because", null_if_empty(result.rule.because)},
                             {"file", null_if_empty(result.rule.file)},
                             {"line", result.rule.file.empty() ? Json() : Json(result.rule.line)},
                             {"status", name_of(result.status)},
                             {"found", result.found},
                             {"remedy", null_if_empty(result.remedy)},
                             {"path", std::move(path)},
                             {"places", std::move(places)}});
  }
  return write_json(json, 1) + "\n";
}

}  // namespace optrace
