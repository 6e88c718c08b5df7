#pragma once

#include <span>
#include <string>

#include "gpu/generator/prototype.h"
#include "gpu/libraries/device_families.h"

namespace optrace {

/// Returns C++ code with a weak definition of every function of `prototypes` according to the rules
/// (gpu/generator/call_rules.h), and of every function of `undeclared`, which no header
/// declares, as an unimplemented one. `headers` declare the types.
std::string write_definitions(const DeviceFamily& family, std::span<const std::string> headers,
                              std::span<const Prototype> prototypes,
                              std::span<const std::string> undeclared);

/// Returns the C++ code that includes these headers.
std::string write_includes(std::span<const std::string> headers);

}  // namespace optrace
