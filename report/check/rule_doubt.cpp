#include "report/check/rule_doubt.h"

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <string_view>

#include "report/model/shortfalls.h"

namespace optrace {
namespace {

bool is_about_uses(const Rule& rule) {
  return rule.kind == Rule::Kind::uses || rule.kind == Rule::Kind::never_uses;
}

bool measures(const Rule& rule, std::initializer_list<Measure> some) {
  return rule.kind == Rule::Kind::measure && std::ranges::find(some, rule.measure) != some.end();
}

bool any_pattern(const NameMeaning& meaning, bool (*is_such)(std::string_view pattern)) {
  return std::ranges::any_of(meaning.patterns,
                             [&](const std::string& pattern) { return is_such(pattern); });
}

// Python names have dots, and no `::`.
bool may_be_python(const NameMeaning& meaning) {
  return !meaning.classes.empty() || any_pattern(meaning, [](std::string_view pattern) {
    return pattern.find("::") == std::string_view::npos &&
           pattern.find_first_of(".*") != std::string_view::npos;
  });
}

// Names with at most one scope: `aten::add.Tensor`, `add`, `sgemm_`.
bool may_be_op(const NameMeaning& meaning) {
  return any_pattern(meaning, [](std::string_view pattern) {
    const std::size_t scope = pattern.find("::");
    return scope == std::string_view::npos ||
           pattern.find("::", scope + 2) == std::string_view::npos ||
           pattern.find('*') != std::string_view::npos;
  });
}

// Ops have a scope and a lower-case name; device kernels can have any name.
bool may_be_device_kernel(const NameMeaning& meaning) {
  return any_pattern(meaning,
                     [](std::string_view pattern) { return !pattern.starts_with("aten::"); });
}

RuleDoubt without_python(const Rule& rule, const NameMeaning& meaning) {
  // Only Python frames show the function that requested a copy, and those that torch.compile
  // returned.
  if (measures(rule, {Measure::implicit_copies, Measure::graph_breaks}))
    return {.more = true, .parts = true, .too_many = std::numeric_limits<std::uint64_t>::max()};
  return {.more = rule.kind == Rule::Kind::has_sources || rule.kind == Rule::Kind::no_finding ||
                  (rule.kind == Rule::Kind::calls && may_be_python(meaning))};
}

RuleDoubt without_records(const Rule& rule, const NameMeaning& meaning) {
  return {.more = is_about_uses(rule) || rule.kind == Rule::Kind::no_dtype ||
                  rule.kind == Rule::Kind::no_finding ||
                  (rule.kind == Rule::Kind::calls && may_be_op(meaning)) ||
                  measures(rule, {Measure::ops, Measure::kernels, Measure::library_calls,
                                  Measure::copies, Measure::implicit_copies, Measure::failures}),
          .parts = is_about_uses(rule)};
}

RuleDoubt without_device_work(const Rule& rule, const NameMeaning& meaning) {
  return {.more = measures(rule, {Measure::launches, Measure::copies}) || is_about_uses(rule) ||
                  (rule.kind == Rule::Kind::calls && may_be_device_kernel(meaning)),
          .parts = is_about_uses(rule)};
}

// Counts that depend on the frames above or below. Without these, kernels are missed, and parts of
// another library call or copy, or of a method of the same class, are counted in addition.
RuleDoubt without_places(const Rule& rule, const NameMeaning& meaning, std::uint64_t calls) {
  if (is_about_uses(rule) || measures(rule, {Measure::graph_breaks, Measure::implicit_copies}))
    return {.too_many = calls, .too_few = calls};
  if (measures(rule, {Measure::kernels})) return {.too_few = calls};
  if (measures(rule, {Measure::library_calls, Measure::copies}) ||
      (rule.kind == Rule::Kind::calls && !(meaning.classes.empty() && meaning.bindings.empty())))
    return {.too_many = calls};
  return {};
}

RuleDoubt without_callers(const Rule& rule, std::uint64_t calls) {
  return is_about_uses(rule) ? RuleDoubt{.too_many = calls, .too_few = calls} : RuleDoubt{};
}

std::uint64_t difference(std::uint64_t from, std::uint64_t less) {
  return from - std::min(from, less);
}

std::uint64_t sum(std::uint64_t one, std::uint64_t other) {
  return one + std::min(other, std::numeric_limits<std::uint64_t>::max() - one);
}

// Returns true if all numbers from `least` to `most` give the same verdict.
bool same_for_all(Relation relation, std::uint64_t bound, std::uint64_t least, std::uint64_t most) {
  // A relation changes only at its bound, so checking these numbers is enough.
  bool any = holds(least, relation, bound) || holds(most, relation, bound);
  bool all = holds(least, relation, bound) && holds(most, relation, bound);
  if (least <= bound && bound <= most) {
    any = any || holds(bound, relation, bound);
    all = all && holds(bound, relation, bound);
  }
  return any == all;
}

}  // namespace

RuleDoubt doubt_of(const Shortfall& shortfall, const Rule& rule, const NameMeaning& meaning) {
  switch (kind_of(shortfall).effect) {
    case ShortfallEffect::calls:
      return {.more = true};
    case ShortfallEffect::frames:
      return {.more = true, .parts = true};
    case ShortfallEffect::python:
      return without_python(rule, meaning);
    case ShortfallEffect::records:
      return without_records(rule, meaning);
    case ShortfallEffect::device:
      return without_device_work(rule, meaning);
    case ShortfallEffect::places:
      return without_places(rule, meaning, shortfall.count);
    case ShortfallEffect::timeline:
    case ShortfallEffect::details:
      return {};
    case ShortfallEffect::callers:
      return without_callers(rule, shortfall.count);
  }
  return {.more = true, .parts = true};
}

bool can_turn(const RuleDoubt& doubt, const Rule& rule, std::uint64_t found, bool good) {
  constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();
  switch (rule.kind) {
    case Rule::Kind::uses:
      // A recorded call without the backend may have lost the frames that show it.
      return doubt.parts || doubt.too_many != 0 || (doubt.more && good);
    case Rule::Kind::never_uses:
      return doubt.too_many != 0 || ((doubt.more || doubt.parts) && good);
    case Rule::Kind::decision:
      return (doubt.more || doubt.parts) && good;
    case Rule::Kind::no_dtype:
    case Rule::Kind::has_sources:
    case Rule::Kind::no_finding:
      return doubt.more && good;
    case Rule::Kind::calls:
    case Rule::Kind::measure:
      break;
  }
  const std::uint64_t least = difference(found, doubt.too_many);
  const std::uint64_t most = doubt.more ? kAnyNumber : sum(found, doubt.too_few);
  return !same_for_all(rule.relation, rule.bound, least, most);
}

}  // namespace optrace
