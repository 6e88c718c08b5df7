#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "indexer/store/index_store.h"

namespace optrace {

/// Returns true for an enumeration that describes a tensor, such as `c10::ScalarType`, or an
/// optional of one. No function that returns one chooses what is called next.
bool describes_tensor(std::string_view type);

/// Returns true for a boolean, and for an enumeration that does not describe a tensor.
bool is_decision(const ResultType& type);

/// Returns true for functions whose results are no decisions of PyTorch: those of containers and
/// symbolic numbers, operators, and functions of other libraries.
bool decides_nothing(std::string_view symbol);

/// A call in a function's source.
struct CalledDecision {
  std::string name;        ///< Qualified.
  std::uint32_t line = 0;  ///< Of its first call, in the file of the caller.
  bool approximate = false;
};

/// Returns the functions returning decisions that a function calls in its source, in the order of
/// the calls.
std::vector<CalledDecision> decisions_in_source(const Index& index, std::string_view symbol,
                                                std::string_view source_file);

}  // namespace optrace
