#pragma once

#include <string_view>

#include "gpu/emulated/device/device.h"

namespace optrace::emulated {

/// Returns the version that a library of kVersionSchemes reports, as the number that its header
/// defines. `built` is that of the header here, for a process without $OPTRACE_DRY_RUN_VERSIONS.
OPTRACE_DEVICE_EXPORT int reported_version(std::string_view library, int built);

/// Returns one part of it: its property, as in CUDA's enumeration libraryPropertyType. Returns
/// false for others.
OPTRACE_DEVICE_EXPORT bool reported_property(std::string_view library, int built, int property,
                                             int& value);

}  // namespace optrace::emulated
