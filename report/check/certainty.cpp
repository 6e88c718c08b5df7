#include "report/check/certainty.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "report/check/uncertainty.h"
#include "tracer/trace/trace.h"

namespace optrace {
namespace {

constexpr std::string_view kAcceptAsItIs =
    "--allow-unknown (in Python allow_unknown=True) accepts the rule as it is.";

std::string remedy_for_unknown(const std::string& pattern, const CheckContext& context) {
  if (!context.names().complete())
    return "There is no index of PyTorch's source, which has the names that were not called "
           "(optrace source fetch creates one). " +
           std::string(kAcceptAsItIs);
  const std::vector<std::string> near = context.similar_names(pattern);
  return fmt::format(
      "{} {}",
      near.empty() ? "Correct the name: `optrace locate NAME` and `optrace explain OP` find names."
                   : fmt::format("Did you mean {}?", joined(near, ", ")),
      kAcceptAsItIs);
}

/// Returns why no trace shows calls of a name, of which this is known.
std::string_view why_not_observable(const NameTargets& targets, Observability known) {
  if (!targets.why_unobservable.empty()) return targets.why_unobservable;
  return known == Observability::absent
             ? "the libraries of this torch have no function of that name: it is compiled into its "
               "callers, or it belongs to another build"
             : "it is a type, a function that is inlined into others, or one that optrace does not "
               "record";
}

std::string name_another() {
  return fmt::format("Name an op, or a function that does the work. {}", kAcceptAsItIs);
}

Undecidable may_be_more(const std::string& pattern, std::string_view why) {
  return {.why = fmt::format("{} may have been called more often: {}", pattern, why),
          .remedy = name_another()};
}

/// Returns why calls of a name of which this is known may be missing; empty if none are.
std::string_view why_more(Observability known) {
  switch (known) {
    case Observability::walked:
      return "it has no probe, and is counted only where it was found on the stack of a function "
             "that it calls";
    case Observability::inlined:
      return "it is a function of a header, and is counted only where the compiler did not put it "
             "into its caller";
    case Observability::led:
      return "a report, and a trace of an older optrace, have only those calls of Python functions "
             "that lead to something recorded";
    default:
      return {};
  }
}

}  // namespace

std::optional<Undecidable> Certainty::why_undecided(const Rule& rule, std::uint64_t found) const {
  if (sureness == Sureness::exact ||
      !may_change_comparison({.more = true}, found, rule.relation, rule.bound))
    return std::nullopt;
  return reason;
}

Certainty certainty_of(const Rule& rule, const NameTargets& targets, std::uint64_t found,
                       Observability counted_as, const CheckContext& context) {
  if (context.options().allow_unknown) return {};
  const KnownNames& names = context.names();
  const Observability known = names.observability_of(targets);
  if (found == 0 && known == Observability::none)
    return {
        Sureness::not_observable,
        {.why = fmt::format("no known name matches {}, so the rule could never fail", rule.pattern),
         .remedy = remedy_for_unknown(rule.pattern, context)}};
  if (found == 0 && (known == Observability::absent || known == Observability::unrecorded))
    return {Sureness::not_observable,
            {.why = fmt::format("no trace can show calls of {}: {}", rule.pattern,
                                why_not_observable(targets, known)),
             .remedy = name_another()}};
  if (known == Observability::by_record && !context.arguments().any)
    return {Sureness::not_recorded,
            without_op_records(fmt::format(
                "only op records show calls of {}, and the report has none", rule.pattern))};
  if (known == Observability::hidden && !names.has_traces())
    return {
        Sureness::not_recorded,
        {.why = fmt::format("a report omits {} where it leads to no frame that the report shows",
                            rule.pattern),
         .remedy = "Check the trace itself (--trace FILE), which has all calls."}};
  if (found == 0 && names.hides_calls(rule.pattern))
    return {
        Sureness::not_observable,
        {.why = fmt::format("{} is a class without a constructor and a forward() of its own, and "
                            "what it inherits is recorded by the name of the other class",
                            rule.pattern),
         .remedy = fmt::format("Name the class that defines them. {}", kAcceptAsItIs)}};
  const std::string_view why = why_more(counted_as == Observability::recorded ? known : counted_as);
  if (why.empty()) return {};
  return {Sureness::at_least, may_be_more(rule.pattern, why)};
}

Undecidable without_op_records(std::string why) {
  return {.why = std::move(why),
          .remedy = "Trace on a machine with a C++ compiler, which op records need."};
}

Undecidable without_some_arguments(std::uint64_t left_out) {
  return {.why = fmt::format("the arguments of {} op call{} are not in the report, which keeps {} "
                             "different calls for each path",
                             left_out, left_out == 1 ? "" : "s", kMaxCounts),
          .remedy = "Trace fewer ops (--ops, --count), or a part of the program."};
}

std::string never_called(const Rule& rule) {
  return fmt::format("{} was never called{}{}", rule.pattern, rule.device.empty() ? "" : " on ",
                     rule.device);
}

}  // namespace optrace
