#pragma once

#include <string>

#include "tracer/launch/op_tracer.h"

namespace optrace {

/// Parses a value of --shape: `2x3x4` or `weight=2x3`; `scalar` has no dimensions. Throws
/// Error(usage).
TensorShape parse_shape(const std::string& text);

/// Parses a value of --dtype: `float16` or `weight=float16`. Does not check that torch has it.
/// Throws Error(usage).
TensorType parse_dtype(const std::string& text);

}  // namespace optrace
