#pragma once

#include <span>
#include <string>

#include "tracer/device_generator/device_families.h"
#include "tracer/device_generator/prototype.h"

namespace optrace {

/// Returns C++ code that defines a forwarder for every function of `prototypes` that computes
/// something (tracer/device_generator/call_rules.h). A forwarder records the call and calls the
/// original function. The code registers the forwarders (tracer/in_process/cuda_calls/forwards.h).
std::string write_forwarders(const DeviceFamily& family, std::span<const std::string> headers,
                             std::span<const Prototype> prototypes);

}  // namespace optrace
