#pragma once

#include <span>
#include <string>

#include "tracer/device_generator/device_families.h"
#include "tracer/device_generator/prototype.h"

namespace optrace {

/// C++ that defines, for every function of `prototypes` that has a library compute something
/// (tracer/device_generator/call_rules.h), one that records the call and goes on to the function
/// itself; they add themselves to what is forwarded (tracer/in_process/cuda_calls/forwards.h).
std::string write_forwarders(const DeviceFamily& family, std::span<const std::string> headers,
                             std::span<const Prototype> prototypes);

}  // namespace optrace
