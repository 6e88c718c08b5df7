#include "report/check/check.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "platform/error.h"
#include "report/check/occurrences.h"
#include "report/check/rule_kinds.h"
#include "report/check/uncertainty.h"
#include "report/model/shortfalls.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;

class Check {
 public:
  Check(const Report& report, const KnownNames& names, const std::vector<Rule>& rules,
        const CheckOptions& options)
      : report_(report), rules_(rules), context_(report, names, options) {
    if (rules.size() > kMaxRules)
      throw Error(ExitStatus::usage,
                  fmt::format("there are {} rules, more than {}", rules.size(), kMaxRules),
                  "Check fewer at a time.");
    for (const Rule& rule : rules) counters_.push_back(rule.kind->start(rule, context_));
  }

  std::vector<CheckResult> run() {
    walk();
    std::vector<CheckResult> results;
    results.reserve(rules_.size());
    for (std::size_t i = 0; i < rules_.size(); ++i)
      results.push_back(result_of(rules_[i], *counters_[i]));
    return results;
  }

 private:
  void walk() {
    std::vector<const Frame*> path;
    walk_frames(report_.roots, std::size_t{0}, [&](const Frame& frame, std::size_t above) {
      path.resize(above);
      path.push_back(&frame);
      user_frames_.resize(above);
      user_frames_.push_back(
          innermost_user_frame(path, above == 0 ? kNoUserFrame : user_frames_.back()));
      python_.resize(above);
      python_.push_back(above == 0 ? std::string_view() : python_function_at(*path[above - 1]));
      context_.visit(frame);
      const PathToFrame visited{
          .frames = path, .user_frame = user_frames_.back(), .python_function = python_.back()};
      for (const auto& counter : counters_) counter->visit(visited);
      return path.size();
    });
  }

  /// Returns the innermost Python function at a frame, for which `python_` has the last entry.
  std::string_view python_function_at(const Frame& frame) const {
    return frame.layer == Layer::python ? std::string_view(frame.name) : python_.back();
  }

  CheckResult result_of(const Rule& rule, const RuleCounter& counter) const {
    CheckResult result;
    result.rule = rule;
    if (report_.roots.empty()) {
      result.status = Status::failed;
      result.found = "nothing: the report is empty";
      if (const Shortfall* const shortfall = deciding_shortfall(counter, counter.judge().holds))
        set_undecidable(*shortfall, result);
      return result;
    }
    judge(counter, result);
    result.path = counter.occurrences().path();
    result.places = counter.occurrences().places();
    return result;
  }

  void judge(const RuleCounter& counter, CheckResult& result) const {
    const Verdict verdict = counter.judge();
    result.found = verdict.found;
    result.status = verdict.holds ? Status::passed : Status::failed;
    if (verdict.undecidable)
      set_undecidable(*verdict.undecidable, result);
    else if (const Shortfall* const shortfall = deciding_shortfall(counter, verdict.holds))
      set_undecidable(*shortfall, result);
  }

  static void set_undecidable(const Shortfall& shortfall, CheckResult& result) {
    set_undecidable(
        {.why = sentence_of(shortfall), .remedy = std::string(kind_of(shortfall).remedy)}, result);
  }

  static void set_undecidable(const Undecidable& reason, CheckResult& result) {
    result.status = Status::error;
    result.found = result.found.empty() ? reason.why
                                        : fmt::format("{}, but {}, so the rule can't be decided",
                                                      result.found, reason.why);
    result.remedy = reason.remedy;
  }

  /// Returns the first shortfall that could change the verdict; null if none could.
  const Shortfall* deciding_shortfall(const RuleCounter& counter, bool holds) const {
    const Sensitivity sensitivity = counter.sensitivity();
    const auto found = std::ranges::find_if(report_.shortfalls, [&](const Shortfall& shortfall) {
      return counter.may_change_verdict(uncertainty_of(shortfall, sensitivity), holds);
    });
    return found == report_.shortfalls.end() ? nullptr : &*found;
  }

  const Report& report_;
  const std::vector<Rule>& rules_;
  CheckContext context_;
  std::vector<std::unique_ptr<RuleCounter>> counters_;  // For each rule.
  std::vector<std::size_t> user_frames_;                // For each frame of the path.
  std::vector<std::string_view> python_;  // For each frame of the path: the Python function above.
};

}  // namespace

std::vector<CheckResult> check(const Report& report, const KnownNames& names,
                               const std::vector<Rule>& rules, const CheckOptions& options) {
  return Check(report, names, rules, options).run();
}

CheckResult::Status status_of(const std::vector<CheckResult>& results) {
  Status worst = Status::passed;
  for (const CheckResult& result : results) worst = std::max(worst, result.status);
  return worst;
}

}  // namespace optrace
