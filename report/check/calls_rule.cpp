// `calls NAME [<= N]` and `never calls NAME`
#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>

#include <fmt/core.h>

#include "present/readable_numbers.h"
#include "report/check/certainty.h"
#include "report/check/names/recorded_calls.h"
#include "report/check/rule_functions.h"
#include "report/model/op_call.h"

namespace optrace {
namespace {

bool any_pattern(const NameTargets& targets, bool (*matches)(std::string_view pattern)) {
  return std::ranges::any_of(targets.patterns,
                             [&](const std::string& pattern) { return matches(pattern); });
}

// Python names have dots, and no `::`.
bool may_be_python(const NameTargets& targets) {
  return !targets.classes.empty() || any_pattern(targets, [](std::string_view pattern) {
    return pattern.find("::") == std::string_view::npos &&
           pattern.find_first_of(".*") != std::string_view::npos;
  });
}

// Names with at most one scope: `aten::add.Tensor`, `add`, `sgemm_`.
bool may_be_op(const NameTargets& targets) {
  return any_pattern(targets, [](std::string_view pattern) {
    const std::size_t scope = pattern.find("::");
    return scope == std::string_view::npos ||
           pattern.find("::", scope + 2) == std::string_view::npos ||
           pattern.find('*') != std::string_view::npos;
  });
}

// Ops have a scope and a lower-case name; device kernels can have any name.
bool may_be_device_kernel(const NameTargets& targets) {
  return any_pattern(targets,
                     [](std::string_view pattern) { return !pattern.starts_with("aten::"); });
}

/// Counts the calls of a library function that are recorded in the frame and have no frame of their
/// own.
std::uint64_t calls_inside(const NameTargets& targets, const Frame& frame) {
  const auto has_frame = [&](const std::string& name) {
    return std::ranges::find(frame.children, name, &Frame::name) != frame.children.end();
  };
  std::uint64_t count = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (!call.function.empty() && call.library != "oneDNN" && targets.names(call.function) &&
        !has_frame(call.function))
      count += call.calls;
  return count;
}

class CallsCounter final : public RuleCounter {
 public:
  CallsCounter(const Rule& rule, const CheckContext& context)
      : rule_(rule),
        context_(context),
        targets_(context.names().targets_of(rule.pattern)),
        recorded_(context.names().recorded_calls(targets_)),
        kernels_(context.names().kernels_of(targets_)) {
    if (const auto& exact = reported())
      for (const auto& [name, calls] : *exact)
        if (targets_.names(name) || (targets_.names_method(name, {}) && is_called_method(name)))
          in_python_ += calls;
  }

  void visit(const PathToFrame& path) override {
    const Frame& frame = path.frame();
    if (targets_.names(frame, path.python_function)) {
      if (frame.detail->calls_at_least) counted_as_ = Observability::walked;
      if (frame.layer == Layer::python || frame.layer == Layer::compiler) {
        if (!is_counted_in_all(frame.name)) in_python_ += frame.calls;
        occurrences().add_path(path.frames);
        occurrences().add_place(path, frame.calls);
      } else {
        queries_ += frame.calls - calls_with_work(frame);
        occurrences().add(path, calls_with_work(frame));
      }
    } else {
      occurrences().add(path, calls_inside(targets_, frame));
      if (without_op_.empty() && frame.layer == Layer::kernel && kernels_.contains(frame.name))
        without_op_ = called_without_op(path);
    }
  }

  Verdict judge() const override {
    const std::uint64_t calls = found();
    const Certainty certainty = certainty_of(rule_, targets_, calls, counted_as(), context_);
    Verdict verdict{.holds = holds(calls, rule_.relation, rule_.bound),
                    .undecidable = certainty.why_undecided(rule_, calls)};
    if (calls == 0 && !without_op_.empty() && !verdict.undecidable &&
        !context_.options().allow_unknown)
      verdict.undecidable = {.why = without_op_,
                             .remedy =
                                 "A rule can name that function. --allow-unknown (in Python "
                                 "allow_unknown=True) counts calls of the op alone."};
    if (calls != 0)
      verdict.found = "called " + counted(calls, "time");
    else if (!verdict.undecidable)
      verdict.found = "never called";
    if (!context_.options().all && recorded_.unshown != 0 && !verdict.undecidable)
      verdict.found += fmt::format(
          ", besides {} by imports of torch's modules or compilations (--all counts them)",
          counted(recorded_.unshown, "call"));
    return verdict;
  }

  Sensitivity sensitivity() const override {
    const bool is_represented = !targets_.classes.empty() || !targets_.bindings.empty();
    return {.python = {.more = may_be_python(targets_)},
            .records = {.more = may_be_op(targets_)},
            .device = {.more = may_be_device_kernel(targets_)},
            // A method of the same class, or another frame of a binding, is counted in addition.
            .places = {.too_many = is_represented}};
  }

  bool may_change_verdict(const Uncertainty& uncertainty, bool /*holds*/) const override {
    return may_change_comparison(uncertainty, found(), rule_.relation, rule_.bound);
  }

 private:
  const std::optional<CallsByName>& reported() const { return context_.report().python_calls; }

  /// Returns true for a function of which the report has the number of all calls.
  bool is_counted_in_all(const std::string& function) const {
    return reported() && reported()->contains(function) &&
           (targets_.names(function) || is_called_method(function));
  }

  /// Describes the call of a kernel of the targets' ops that no dispatcher made; empty if the op
  /// that it runs for has that kernel, too.
  std::string called_without_op(const PathToFrame& path) const {
    const auto above = std::ranges::find_if(path.frames.rbegin(), path.frames.rend(),
                                            [](const Frame* one) { return is_op_call(*one); });
    const std::string op = above == path.frames.rend() ? "" : (*above)->op.value_or("");
    const std::string& name = path.frame().name;
    NameTargets caller;
    caller.patterns.push_back(op);
    if (op.empty() || context_.names().kernels_of(caller).contains(name)) return {};
    return fmt::format("its kernel {} ran inside {}, which calls it without the dispatcher", name,
                       op);
  }

  /// Reports leave out calls below which they show nothing, and count resumptions of generators.
  std::uint64_t found() const {
    return std::max(occurrences().count(),
                    recorded_.native - std::min(queries_, recorded_.native)) +
           (context_.names().counts_python() && context_.names().has_traces()
                ? recorded_.python
                : std::max(in_python_, recorded_.python)) +
           (context_.options().all ? recorded_.unshown : 0);
  }

  Observability counted_as() const {
    const bool some_led = in_python_ != 0 && !context_.names().counts_python();
    return some_led || (recorded_.other_methods && found() == 0) ? Observability::led : counted_as_;
  }

  const Rule& rule_;
  const CheckContext& context_;
  NameTargets targets_;
  RecordedCalls recorded_;
  const std::set<std::string> kernels_;
  std::string without_op_;       // How one of them ran, though no call of the op did.
  std::uint64_t queries_ = 0;    // See calls_with_work().
  std::uint64_t in_python_ = 0;  // Calls in frames of Python functions.
  Observability counted_as_ = Observability::recorded;
};

/// Parses a sentence with `at` words before the pattern, which may contain spaces.
Rule called_name(const RuleSentence& sentence, std::size_t at, bool bound) {
  const std::size_t end = sentence.size() - (bound ? 2 : 0);
  if (end <= at) throw sentence.refused("the name of the called function is missing");
  Rule rule;
  rule.pattern = sentence.joined(at, end);
  sentence.require_name(rule.pattern);
  return rule;
}

}  // namespace

ParsedRule parse_calls(const RuleSentence& sentence) {
  if (sentence.word(0) != "calls") return std::nullopt;
  const std::optional<Bound> bound = sentence.bound();
  Rule rule = called_name(sentence, 1, bound.has_value());
  if (bound) {
    rule.relation = bound->relation;
    rule.bound = bound->number;
  }
  return rule;
}

ParsedRule parse_never_calls(const RuleSentence& sentence) {
  if (sentence.word(0) != "never" || sentence.word(1) != "calls") return std::nullopt;
  if (sentence.bound()) throw sentence.refused("a rule with 'never' takes no number");
  Rule rule = called_name(sentence, 2, false);
  forbid(rule);
  return rule;
}

StartedRule start_calls(const Rule& rule, const CheckContext& context) {
  return std::make_unique<CallsCounter>(rule, context);
}

}  // namespace optrace
