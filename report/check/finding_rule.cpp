// `no finding [NAME]`
#include <string>

#include <fmt/core.h>

#include "report/check/certainty.h"
#include "report/check/finding_name.h"
#include "report/check/rule_functions.h"

namespace optrace {
namespace {

class FindingCounter final : public RuleCounter {
 public:
  FindingCounter(const Rule& rule, const CheckContext& context) : context_(context) {
    for (const Finding& finding : context.findings())
      if (rule.pattern.empty() || rule.pattern == finding.rule->name) add(finding);
  }

  void visit(const PathToFrame& /*path*/) override {}

  Verdict judge() const override {
    if (!context_.arguments().any)
      return {.undecidable =
                  without_op_records("the report has no op arguments, which most findings need")};
    const std::uint64_t found = occurrences().count();
    if (found == 0) return {.holds = true, .found = "none"};
    return {
        .holds = false,
        .found = found == 1 ? first_ : fmt::format("{} findings; the first is {}", found, first_)};
  }

  Sensitivity sensitivity() const override {
    return {.python = {.more = true}, .records = {.more = true}};
  }

  bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const override {
    return uncertainty.more && holds;
  }

 private:
  void add(const Finding& finding) {
    occurrences().add(1);
    occurrences().add_place({.function = finding.function,
                             .file = finding.file,
                             .line = finding.line,
                             .count = finding.calls});
    if (occurrences().has_path()) return;
    std::vector<const Frame*> path{finding.in_function};
    for (const Frame* const frame : finding.evidence)
      if (frame != finding.in_function) path.push_back(frame);
    occurrences().add_path(path);
    first_ = fmt::format("{}: {}", finding.rule->name, finding.message);
  }

  const CheckContext& context_;
  std::string first_;  // The first finding, as text.
};

}  // namespace

ParsedRule parse_finding(const RuleSentence& sentence) {
  if (sentence.word(0) != "no" || sentence.word(1) != "finding") return std::nullopt;
  if (sentence.size() > 3) throw sentence.refused("the name of a finding is one word");
  Rule rule;
  if (sentence.size() == 3) {
    rule.pattern = sentence.word(2);
    require_finding_rule(rule.pattern);
  }
  return rule;
}

StartedRule start_finding(const Rule& rule, const CheckContext& context) {
  return std::make_unique<FindingCounter>(rule, context);
}

}  // namespace optrace
