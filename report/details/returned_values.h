#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "indexer/store/result_type.h"
#include "report/model/detail.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns the values that the calls of a function returned. Nothing if no value can be read.
std::optional<ReturnedValues> returned_values(const ResultType& type,
                                              std::span<const ReturnCount> counts,
                                              std::uint64_t left_out);

/// Returns returned values as text: `→ true`, `→ ConvBackend::Mkldnn`, `→ false ×3, true ×1`.
std::string returned_text(const ReturnedValues& returned);
/// Returns those of a frame; empty if its detail has none.
std::string returned_text(const Detail& detail);

/// The decisions that a function made: what its calls returned, if that is a boolean, an enumerator
/// or whether there is a value or a null pointer. Integers without a name are counts and numbers
/// rather than decisions.
struct DecidedValues {
  std::set<std::string> values;  ///< Their spellings; empty if none was recorded.
  bool of_all_calls = false;     ///< Each of `calls` calls has one.
};
DecidedValues decided_values(const Detail& detail, std::uint64_t calls);

/// Returns true if a value is a named one of an enumeration. `type` is the name of the type.
bool is_enumerator(const CountedResult& value, const std::string& type);

/// Returns the spelling of a value: `true`, `ConvBackend::Mkldnn`, `3`. `type` is the name of the
/// type.
std::string value_text(const CountedResult& value, const std::string& type);

}  // namespace optrace
