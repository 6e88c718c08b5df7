#pragma once

#include <span>
#include <string>

#include "gpu/generator/prototype.h"
#include "gpu/libraries/device_families.h"

namespace optrace {

/// Returns C++ code that defines a forwarder for every function of `prototypes` that computes
/// something (gpu/generator/call_rules.h). A forwarder records the call and calls the
/// original function. The code registers the forwarders (gpu/recorder/forwards.h).
std::string write_forwarders(const DeviceFamily& family, std::span<const std::string> headers,
                             std::span<const Prototype> prototypes);

}  // namespace optrace
