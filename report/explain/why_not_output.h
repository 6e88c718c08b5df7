#pragma once

#include <string>

#include "present/terminal_text.h"
#include "report/explain/explain.h"
#include "report/explain/returned_in_calls.h"
#include "report/explain/why_not.h"

namespace optrace {

/// A call whose values are shown beside the predicates.
struct CallAtHand {
  std::string input;   ///< The trace, report or command.
  std::string device;  ///< `cpu`
  ReturnedInCalls returned;
};

/// Returns the answer of `optrace explain OP --why-not BACKEND` for people. `call` may be null.
std::string to_text(const WhyNot& why_not, const CallAtHand* call, const ExplanationSource& source,
                    const TerminalStyle& style);

/// Returns schema optrace.why_not/1 (report/schemas/why_not.schema.json), indented, with a newline
/// at the end. `call` may be null.
std::string to_json(const WhyNot& why_not, const CallAtHand* call, const ExplanationSource& source);

}  // namespace optrace
