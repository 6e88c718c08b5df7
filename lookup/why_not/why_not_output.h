#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "lookup/explain/explain.h"
#include "lookup/why_not/why_not.h"
#include "present/terminal_text.h"

namespace optrace {

/// What a function returned when another one called it.
struct ObservedResult {
  nlohmann::json values;  ///< As `detail.returned` of a report (docs/report-format.md), or null.
  std::string text;       ///< `→ false`, or empty.
};

/// Calls of the op whose values are shown beside the predicates.
struct ObservedCall {
  std::string input;   ///< The trace, report or command.
  std::string device;  ///< `cpu`
  std::size_t calls = 0;
  std::vector<std::string> attention;  ///< `refused by check_tensor_dtype ...`: PyTorch's reasons.
  /// Symbols are canonical, or the key of a template's instances.
  std::function<ObservedResult(std::string_view symbol, std::string_view caller)> returned;
};

/// Returns the answer of `optrace explain OP --why-not BACKEND` for people. `call` may be null.
std::string to_text(const WhyNot& why_not, const ObservedCall* call,
                    const ExplanationSource& source, const TerminalStyle& style);

/// Returns schema optrace.why_not/1 (lookup/schemas/why_not.schema.json), indented, with a newline
/// at the end. `call` may be null.
std::string to_json(const WhyNot& why_not, const ObservedCall* call,
                    const ExplanationSource& source);

}  // namespace optrace
