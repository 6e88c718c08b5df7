#pragma once

#include <cstdint>
#include <set>
#include <span>
#include <string>

#include <nlohmann/json.hpp>

#include "indexer/store/result_type.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns `detail.returned` of a frame (docs/report-format.md): the type of a function's result
/// and the values that its calls returned, the most frequent one first. Null if no value can be
/// read.
nlohmann::json returned_values(const ResultType& type, std::span<const ReturnTally> tallies,
                               std::uint64_t left_out);

/// Returns a frame's returned values as text: `→ true`, `→ ConvBackend::Mkldnn`,
/// `→ false ×3, true ×1`. Empty if its detail has none.
std::string returned_text(const nlohmann::json& detail);

/// The decisions that a function made: what its calls returned, if that is a boolean, an enumerator
/// or whether there is a value or a null pointer. Integers without a name are counts and numbers
/// rather than decisions.
struct DecidedValues {
  std::set<std::string> values;  ///< Their spellings; empty if none was recorded.
  bool of_all_calls = false;     ///< Each of `calls` calls has one.
};
DecidedValues decided_values(const nlohmann::json& detail, std::uint64_t calls);

/// Returns true if a value of `detail.returned.values` is a named value of an enumeration. `type`
/// is the name of the type.
bool is_enumerator(const nlohmann::json& value, const std::string& type);

/// Returns the spelling of a value of `detail.returned.values`: `true`, `ConvBackend::Mkldnn`, `3`.
/// `type` is the name of the type.
std::string value_text(const nlohmann::json& value, const std::string& type);

}  // namespace optrace
