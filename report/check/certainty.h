#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "report/check/known_names.h"
#include "report/check/rule_kinds.h"

namespace optrace {

// The reasons for which several kinds of rules can't be decided.

/// The report has no op records. `why` says which part of them the rule needs.
Undecidable without_op_records(std::string why = "the report has no op arguments");

/// The arguments of this number of op calls are not in the report.
Undecidable without_some_arguments(std::uint64_t left_out);

/// Returns why the absence of calls of the rule's pattern proves nothing; nothing if it does, or if
/// unknown names are allowed. `meaning` is the meaning of the pattern.
std::optional<Undecidable> why_never_found(const Rule& rule, const NameMeaning& meaning,
                                           const CheckContext& context);

/// Returns that the rule's pattern was never called on the rule's device.
std::string never_called(const Rule& rule);

}  // namespace optrace
