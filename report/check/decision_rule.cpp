// `OP[@DEVICE] decision FUNCTION == VALUE`
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "pytorch/names/name_patterns.h"
#include "report/check/op_on_device.h"
#include "report/check/rule_functions.h"
#include "report/details/returned_values.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

/// Returns true if a value is spelled like this: `Mkldnn` or `ConvBackend::Mkldnn`, with any more
/// of its scope.
bool is_value(const CountedResult& value, const std::string& type, const std::string& spelling) {
  const auto* const number = std::get_if<std::int64_t>(&value.value);
  return spelling == value_text(value, type) || spelling == value.name ||
         spelling == fmt::format("{}::{}", type, value.name) ||
         (number != nullptr && spelling == std::to_string(*number));
}

/// Counts what a function returned in calls of an op. The innermost call of the op counts.
class DecisionCounter final : public RuleCounter {
 public:
  DecisionCounter(const Rule& rule, const CheckContext& context)
      : rule_(rule),
        report_(context.report()),
        targets_(context.names().target_ops(rule.pattern)) {}

  void visit(const PathToFrame& path) override {
    const Frame& function = path.frame();
    if (function.layer == Layer::python || is_op_call(function)) return;
    if (!names_function(rule_.function, function.name) &&
        !names_function("*::" + rule_.function, function.name))
      return;
    if (!is_in_op(path)) return;
    const ReturnedValues returned = function.detail->returned.value_or(ReturnedValues());
    std::uint64_t known = 0;
    for (const CountedResult& value : returned.values) {
      known += value.calls;
      values_[value_text(value, returned.type)] += value.calls;
      if (is_value(value, returned.type, rule_.value) != (rule_.relation == Relation::equal)) {
        occurrences().add(value.calls);
        occurrences().add_path(path.frames);
      }
    }
    with_value_ += known;
    without_value_ += function.calls - std::min(function.calls, known);
  }

  Verdict judge() const override {
    if (with_value_ == 0)
      return {.undecidable = Undecidable{
                  .why = fmt::format("no value that {} returned in {} was recorded", rule_.function,
                                     rule_.pattern),
                  .remedy = "Name a function that the report shows with a value (→), such as "
                            "use_mkldnn, and trace with --decisions all. Functions that the "
                            "compiler inlined return nothing."}};
    std::vector<std::string> values;
    values.reserve(values_.size());
    for (const auto& [value, calls] : values_)
      values.push_back(fmt::format("{} {}", value, counted(calls, "time")));
    Verdict verdict{.holds = occurrences().count() == 0,
                    .found = fmt::format("{} returned {}", rule_.function, joined(values, ", "))};
    if (verdict.holds && without_value_ != 0)
      verdict.undecidable = {
          .why = fmt::format("what {} more calls returned was not recorded", without_value_),
          .remedy = "Trace with --decisions all. Calls through pointers are never recorded."};
    return verdict;
  }

  Sensitivity sensitivity() const override { return {}; }

  bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const override {
    return (uncertainty.more || uncertainty.parts) && holds;
  }

 private:
  bool is_in_op(const PathToFrame& path) const {
    return std::ranges::any_of(path.frames, [&](const Frame* frame) {
      return is_op_call(*frame) && frame->op && targets_.names_operator(*frame->op) &&
             calls_on(*frame, rule_.device, report_) != 0;
    });
  }

  const Rule& rule_;
  const Report& report_;
  NameTargets targets_;
  std::map<std::string, std::uint64_t> values_;  // The number of calls that returned each.
  std::uint64_t with_value_ = 0;                 // Calls whose value is known.
  std::uint64_t without_value_ = 0;
};

}  // namespace

ParsedRule parse_decision(const RuleSentence& sentence) {
  constexpr std::size_t kWords = 5;
  constexpr const char* kForm =
      "The form is OP decision FUNCTION == VALUE, with == or !=: conv2d decision use_cudnn == "
      "true.";
  if (sentence.size() < 3 || sentence.word(1) != "decision") return std::nullopt;
  const bool equal = sentence.word(3) == "==";
  if (sentence.size() != kWords || (!equal && sentence.word(3) != "!="))
    throw sentence.refused("a decision is compared with one value", kForm);
  Rule rule;
  parse_op(sentence, sentence.word(0), rule);
  rule.function = sentence.word(2);
  sentence.require_name(rule.function);
  rule.relation = equal ? Relation::equal : Relation::not_equal;
  rule.value = sentence.word(4);
  return rule;
}

StartedRule start_decision(const Rule& rule, const CheckContext& context) {
  return std::make_unique<DecisionCounter>(rule, context);
}

}  // namespace optrace
