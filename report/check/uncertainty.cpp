#include "report/check/uncertainty.h"

#include <algorithm>
#include <limits>

#include "report/model/shortfalls.h"

namespace optrace {
namespace {

Uncertainty miscounted(const Miscounts& miscounts, std::uint64_t calls) {
  return {.too_many = miscounts.too_many ? calls : 0, .too_few = miscounts.too_few ? calls : 0};
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

Uncertainty uncertainty_of(const Shortfall& shortfall, const Sensitivity& sensitivity) {
  switch (kind_of(shortfall).effect) {
    case ShortfallEffect::calls:
      return {.more = true};
    case ShortfallEffect::frames:
      return {.more = true, .parts = true};
    case ShortfallEffect::python:
      return sensitivity.python;
    case ShortfallEffect::records:
      return sensitivity.records;
    case ShortfallEffect::device:
      return sensitivity.device;
    case ShortfallEffect::places:
      return miscounted(sensitivity.places, shortfall.count);
    case ShortfallEffect::timeline:
    case ShortfallEffect::details:
      return {};
    case ShortfallEffect::callers:
      return miscounted(sensitivity.callers, shortfall.count);
  }
  return {.more = true, .parts = true};
}

bool may_change_comparison(const Uncertainty& uncertainty, std::uint64_t found, Relation relation,
                           std::uint64_t bound) {
  constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();
  const std::uint64_t least = difference(found, uncertainty.too_many);
  const std::uint64_t most = uncertainty.more ? kAnyNumber : sum(found, uncertainty.too_few);
  return !same_for_all(relation, bound, least, most);
}

}  // namespace optrace
