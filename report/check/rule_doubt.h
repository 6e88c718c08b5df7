#pragma once

#include <cstdint>

#include "report/check/check_rules.h"
#include "report/check/known_names.h"
#include "report/model/report_file.h"

namespace optrace {

/// How far what was found for a rule may be from what there was.
struct RuleDoubt {
  bool more = false;           ///< There may be more of what the rule is about.
  bool parts = false;          ///< What a call led to may be missing.
  std::uint64_t too_many = 0;  ///< So many may be counted that are none of it,
  std::uint64_t too_few = 0;   ///< and so many may be that are not counted.
};

/// What a shortfall does to a rule whose name has that meaning.
RuleDoubt doubt_of(const Shortfall& shortfall, const Rule& rule, const NameMeaning& meaning);

/// Whether a verdict could be another one. `found` is what the rule is about, where that is
/// counted, and `good` whether the rule holds for it.
bool can_turn(const RuleDoubt& doubt, const Rule& rule, std::uint64_t found, bool good);

}  // namespace optrace
