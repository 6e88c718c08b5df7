// `no kernel of dtype DTYPE`
#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "pytorch/names/dtypes.h"
#include "pytorch/names/python_names.h"
#include "report/check/certainty.h"
#include "report/check/rule_functions.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

bool is_number(const TensorFacts& tensor) {
  return tensor.shape && tensor.shape->empty();
}

// Returns true if the op computes with this dtype, as far as its arguments say. A Python number has
// the largest dtype of its category, and no op computes in that because of it. A tensor without
// dimensions has no effect beside one that has dimensions and is of the same category or a higher
// one.
bool computes_in(const std::vector<const TensorFacts*>& tensors, std::string_view dtype) {
  return std::ranges::any_of(tensors, [&](const TensorFacts* one) {
    if (one->dtype != dtype || one->wrapped_number) return false;
    return !is_number(*one) || std::ranges::none_of(tensors, [&](const TensorFacts* other) {
      return !is_number(*other) && promotion_category(other->dtype) >= promotion_category(dtype);
    });
  });
}

bool have_dtype(const std::vector<const Result*>& results, std::string_view dtype) {
  return std::ranges::any_of(results, [&](const Result* result) {
    const auto* const tensor = std::get_if<TensorFacts>(&result->value);
    return tensor != nullptr && tensor->dtype == dtype && !tensor->wrapped_number;
  });
}

/// Returns true if a call that a report leaves out may have a tensor of that dtype. A trace has all
/// records of its calls, although a path refers to some of them only.
bool may_be_left_out(const KnownNames& names, const std::string& dtype) {
  const auto has_dtype = [&](const Trace& trace) {
    for (const std::string& text : trace.op_records) {
      if (text.find(dtype) == std::string::npos) continue;
      const OpRecord record = read_op_record(text);
      if (const auto* const call = std::get_if<OpCallRecord>(&record);
          call != nullptr && computes_in(tensors_in(call->arguments), dtype))
        return true;
      if (const auto* const results = std::get_if<OpResults>(&record);
          results != nullptr && have_dtype(results_in(results->results), dtype))
        return true;
    }
    return !trace.meta.merged.empty();
  };
  return !names.has_traces() || std::ranges::any_of(names.traces(), has_dtype);
}

/// Counts the calls of an op with a tensor of that dtype among their arguments or results.
std::uint64_t calls_on_dtype(const Frame& op, const std::string& dtype) {
  if (have_dtype(results_of(*op.detail->dispatch), dtype)) return op.calls;
  std::uint64_t calls = 0;
  for (const OpCalls& kind : op_calls(op))
    if (computes_in(tensors_in(kind), dtype)) calls += kind.calls;
  return calls;
}

class DtypeCounter final : public RuleCounter {
 public:
  DtypeCounter(const Rule& rule, const CheckContext& context) : rule_(rule), context_(context) {}

  void visit(const PathToFrame& path) override {
    const Frame& frame = path.frame();
    if (!is_op_call(frame)) return;
    occurrences().add(path, calls_on_dtype(frame, rule_.value));
    lacks_results_ |= op_calls(frame).size() > 1;
  }

  Verdict judge() const override {
    const RecordedArguments& arguments = context_.arguments();
    if (!arguments.any) return {.undecidable = without_op_records()};
    const std::uint64_t found = occurrences().count();
    if (found != 0)
      return {.found = fmt::format("ops called {} on tensors of {}", counted(found, "time"),
                                   rule_.value)};
    const bool lacks_calls =
        arguments.left_out != 0 || (lacks_results_ && context_.names().has_traces());
    if (!lacks_calls || !may_be_left_out(context_.names(), rule_.value))
      return {.holds = true, .found = "none"};
    if (arguments.left_out != 0) return {.undecidable = without_some_arguments(arguments.left_out)};
    return {.undecidable = Undecidable{
                .why = fmt::format("an op that is called in several ways returned a tensor of {}, "
                                   "and only the results of its most frequent calls are counted",
                                   rule_.value),
                .remedy = "Trace fewer ops (--ops, --count), or a part of the program."}};
  }

  Sensitivity sensitivity() const override { return {.records = {.more = true}}; }

  bool may_change_verdict(const Uncertainty& uncertainty, bool holds) const override {
    return uncertainty.more && holds;
  }

 private:
  const Rule& rule_;
  const CheckContext& context_;
  bool lacks_results_ = false;  // Of the rarer calls of an op.
};

}  // namespace

ParsedRule parse_dtype(const RuleSentence& sentence) {
  const std::string text = sentence.joined(0);
  constexpr std::string_view kStart = "no kernel of dtype ";
  if (!text.starts_with(kStart)) return std::nullopt;
  Rule rule;
  rule.value = without_torch(std::string_view(text).substr(kStart.size()));
  if (!is_dtype(rule.value)) {
    std::vector<std::string_view> names;
    std::ranges::transform(kDtypes, std::back_inserter(names), &Dtype::name);
    throw sentence.refused(fmt::format("'{}' is not a dtype", rule_excerpt(rule.value)),
                           fmt::format("The dtypes are: {}.", joined(names, ", ")));
  }
  return rule;
}

StartedRule start_dtype(const Rule& rule, const CheckContext& context) {
  return std::make_unique<DtypeCounter>(rule, context);
}

}  // namespace optrace
