#pragma once

#include <cstdint>

#include "report/check/check_rules.h"
#include "report/check/known_names.h"
#include "report/model/report_reader.h"

namespace optrace {

/// How much the result for a rule may differ from the truth because of a shortfall.
struct RuleDoubt {
  bool more = false;           ///< Further occurrences may be missing.
  bool parts = false;          ///< Frames below a call may be missing.
  std::uint64_t too_many = 0;  ///< Maximum number of occurrences that are counted by mistake.
  std::uint64_t too_few = 0;   ///< Maximum number of occurrences that are not counted.
};

/// Returns the effect of a shortfall on a rule whose name has that meaning.
RuleDoubt doubt_of(const Shortfall& shortfall, const Rule& rule, const NameMeaning& meaning);

/// Returns true if the verdict could change. `found` is the rule's count, if it has one; `good` is
/// true if the rule holds for it.
bool can_turn(const RuleDoubt& doubt, const Rule& rule, std::uint64_t found, bool good);

}  // namespace optrace
