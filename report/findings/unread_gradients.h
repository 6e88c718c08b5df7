#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "report/model/report.h"

namespace optrace {

/// Gradients of leaves (parameters, inputs) of which no op reads one.
struct UnreadGradients {
  std::string shapes;       ///< `8×8 float32, 8 float32`
  std::uint64_t count = 0;  ///< Over all calls.
};

/// Finds, for the outermost frame of a backward pass, the gradients that it accumulates and that no
/// op of the whole report can have read: nothing outside of the backward pass gets a tensor of that
/// shape and type that is not itself a leaf. Returns none if the report may lack an op that does,
/// or if no optimizer of torch makes two steps. The keys point into the report.
std::unordered_map<const Frame*, UnreadGradients> find_unread_gradients(const Report& report);

}  // namespace optrace
