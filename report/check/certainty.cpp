#include "report/check/certainty.h"

#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "tracer/trace/trace.h"

namespace optrace {
namespace {

std::string remedy_for_unknown(const std::string& pattern, const CheckContext& context) {
  if (!context.names().complete())
    return "There is no index of PyTorch's source, which has the names that were not called "
           "(optrace source fetch creates one). --allow-unknown (in Python allow_unknown=True) "
           "accepts the rule as it is.";
  const std::vector<std::string> near = context.similar_names(pattern);
  return fmt::format(
      "{}--allow-unknown (in Python allow_unknown=True) accepts the rule as it is.",
      near.empty() ? "Correct the name: `optrace locate NAME` and `optrace explain OP` find names. "
                   : fmt::format("Did you mean {}? ", joined(near, ", ")));
}

}  // namespace

Undecidable without_op_records(std::string why) {
  return {.why = std::move(why),
          .remedy = "Trace on a machine with a C++ compiler, which op records need."};
}

Undecidable without_some_arguments(std::uint64_t left_out) {
  return {.why = fmt::format("the arguments of {} op call{} are not in the report, which keeps {} "
                             "different calls for each path",
                             left_out, left_out == 1 ? "" : "s", kMaxTallies),
          .remedy = "Trace fewer ops (--ops, --count), or a part of the program."};
}

std::optional<Undecidable> why_never_found(const Rule& rule, const NameMeaning& meaning,
                                           const CheckContext& context) {
  if (context.options().allow_unknown) return std::nullopt;
  const KnownNames& names = context.names();
  const Knowledge known = names.knowledge_of(meaning);
  if (known == Knowledge::none)
    return Undecidable{
        .why = fmt::format("no known name matches {}, so the rule could never fail", rule.pattern),
        .remedy = remedy_for_unknown(rule.pattern, context)};
  if (known == Knowledge::unrecorded)
    return Undecidable{
        .why =
            fmt::format("no trace can show calls of {}: {}", rule.pattern,
                        meaning.why_untold.empty()
                            ? "it is a type, a function that is inlined into others, or one that "
                              "optrace does not record"
                            : meaning.why_untold),
        .remedy =
            "Name an op, or a function that does the work. --allow-unknown (in Python "
            "allow_unknown=True) accepts the rule as it is."};
  if (known == Knowledge::by_record && !context.arguments().any)
    return without_op_records(
        fmt::format("only op records show calls of {}, and the report has none", rule.pattern));
  if (known == Knowledge::unshown && !names.has_traces())
    return Undecidable{
        .why = fmt::format("a report omits {} where it leads to no frame that the report shows",
                           rule.pattern),
        .remedy = "Check the trace itself (--trace FILE), which has all calls."};
  return std::nullopt;
}

std::string never_called(const Rule& rule) {
  return fmt::format("{} was never called{}{}", rule.pattern, rule.device.empty() ? "" : " on ",
                     rule.device);
}

}  // namespace optrace
