#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/check/names/known_names.h"
#include "report/check/rule_kinds.h"

namespace optrace {

/// How the recorded number of calls of a name is related to the true one. Every rule about a name
/// is judged by it. What a trace lacks as a whole is in its shortfalls (uncertainty.h).
enum class Sureness : std::uint8_t {
  exact,
  at_least,        ///< There may be more calls than were counted.
  not_observable,  ///< No trace can show calls of the name.
  not_recorded,    ///< Other traces, or the trace of this report, show them.
};

struct Certainty {
  Sureness sureness = Sureness::exact;
  Undecidable reason{};  ///< Why the number is not exact, and what to do.

  /// Returns the reason if more calls than `found` could change whether the rule holds.
  std::optional<Undecidable> why_undecided(const Rule& rule, std::uint64_t found) const;
};

/// `targets` are those of the rule's pattern. `found` calls were counted; `counted_as` is the least
/// certain way in which one of them was. With --allow-unknown, names are taken as they are.
Certainty certainty_of(const Rule& rule, const NameTargets& targets, std::uint64_t found,
                       Observability counted_as, const CheckContext& context);

// The reasons for which several kinds of rules can't be decided.

/// The report has no op records. `why` says which part of them the rule needs.
Undecidable without_op_records(std::string why = "the report has no op arguments");

/// The arguments of this number of op calls are not in the report.
Undecidable without_some_arguments(std::uint64_t left_out);

/// Returns that the rule's pattern was never called on the rule's device.
std::string never_called(const Rule& rule);

}  // namespace optrace
