#pragma once

#include <span>
#include <string>
#include <vector>

#include "tracer/device_generator/device_families.h"
#include "tracer/device_generator/prototype.h"

namespace optrace {

/// C++ that defines, weakly, every function of `prototypes` as the rules say
/// (tracer/device_generator/call_rules.h), and every one of `undeclared`, which no header has, as
/// one that says so and fails. `headers`: those that declare the types.
std::string write_definitions(const DeviceFamily& family, std::span<const std::string> headers,
                              std::span<const Prototype> prototypes,
                              std::span<const std::string> undeclared);

/// The same headers, as the C++ text that includes them.
std::string write_includes(std::span<const std::string> headers);

}  // namespace optrace
