#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "indexer/store/indexed_source.h"
#include "lookup/explain/explain.h"
#include "lookup/why_not/why_not.h"
#include "present/terminal_text.h"

namespace optrace {

/// A value that a function returned.
struct ObservedValue {
  std::variant<std::monostate, bool, std::int64_t> value;  ///< Nothing: no value, a null pointer.
  std::string name;                                        ///< Of an enumerator; or empty.
  std::uint64_t calls = 0;
};

/// What a function returned when another one called it.
struct ObservedResult {
  std::string type;
  std::vector<ObservedValue> values;  ///< Empty if nothing is known.
  std::string text;                   ///< `→ false`, or empty.
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
std::string to_text(const WhyNot& why_not, const ObservedCall* call, const IndexedSource& source,
                    const TerminalStyle& style);

/// Returns schema optrace.why_not/1 (lookup/schemas/why_not.schema.json), indented, with a newline
/// at the end. `call` may be null.
std::string to_json(const WhyNot& why_not, const ObservedCall* call, const IndexedSource& source);

}  // namespace optrace
