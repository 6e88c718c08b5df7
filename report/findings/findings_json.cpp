#include <nlohmann/json.hpp>

#include "platform/text/json_writer.h"
#include "report/findings/findings_output.h"
#include "report/model/frame_name.h"

namespace optrace {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson json_of(const FindingRule& rule) {
  return {{"name", rule.name}, {"title", rule.title}, {"why", rule.why}, {"remedy", rule.remedy}};
}

OrderedJson json_of(const Frame& frame) {
  return {{"layer", name_of(frame.layer)}, {"name", frame_name(frame)}, {"calls", frame.calls}};
}

OrderedJson json_of(const Finding& finding) {
  OrderedJson object;
  object["rule"] = finding.rule->name;
  object["message"] = finding.message;
  object["why"] = finding.rule->why;
  object["remedy"] = finding.remedy;
  if (!finding.reason.empty()) object["reason"] = finding.reason;
  object["file"] = finding.file;
  object["line"] = finding.line;
  if (finding.lines.size() > 1) object["lines"] = finding.lines;
  object["function"] = finding.function;
  object["pass"] = name_of(finding.pass);
  object["cost_ns"] = finding.cost_ns;
  if (finding.share) object["share"] = *finding.share;
  object["calls"] = finding.calls;
  if (finding.processes != 0) object["processes"] = finding.processes;
  object["evidence"] = OrderedJson::array();
  for (const Frame* const frame : finding.evidence) object["evidence"].push_back(json_of(*frame));
  return object;
}

template <class Values>
std::string document(const char* key, const Values& values) {
  OrderedJson object;
  object["schema"] = "optrace.findings/1";
  object[key] = OrderedJson::array();
  for (const auto& value : values) object[key].push_back(json_of(value));
  return write_json(object, 1) + '\n';
}

}  // namespace

std::string to_json(const std::vector<Finding>& findings) {
  return document("findings", findings);
}

std::string rules_json() {
  return document("rules", finding_rules());
}

}  // namespace optrace
