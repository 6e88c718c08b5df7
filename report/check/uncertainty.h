#pragma once

#include <cstdint>

#include "report/check/rule_sentence.h"
#include "report/model/report_reader.h"

namespace optrace {

/// How much the count for a rule may differ from the truth because of a shortfall.
struct Uncertainty {
  bool more = false;           ///< Further occurrences may be missing.
  bool parts = false;          ///< Frames below a call may be missing.
  std::uint64_t too_many = 0;  ///< Maximum number of occurrences that are counted by mistake.
  std::uint64_t too_few = 0;   ///< Maximum number of occurrences that are not counted.
};

/// Whether calls in a wrong place of the tree are counted by mistake, or not counted.
struct Miscounts {
  bool too_many = false;
  bool too_few = false;
};

/// How the count for a rule depends on each part of a trace that may be incomplete. Missing calls
/// and frames affect every rule.
struct Sensitivity {
  Uncertainty python{};   ///< If Python functions are missing.
  Uncertainty records{};  ///< If data of op records is missing.
  Uncertainty device{};   ///< If device activity is missing.
  Miscounts places{};     ///< If calls are counted in the wrong place.
  Miscounts callers{};    ///< If callers had to be inferred.
};

/// Returns the effect of a shortfall on a rule of that sensitivity.
Uncertainty uncertainty_of(const Shortfall& shortfall, const Sensitivity& sensitivity);

/// Returns true if the true number may compare to `bound` in another way than `found` does.
bool may_change_comparison(const Uncertainty& uncertainty, std::uint64_t found, Relation relation,
                           std::uint64_t bound);

}  // namespace optrace
