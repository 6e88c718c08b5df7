#pragma once

#include <cstdint>

#include "report/model/report.h"

namespace optrace {

/// Returns the time in the frame and the frames below it, of all calls, in nanoseconds; 0 if it was
/// not recorded.
std::uint64_t total_time(const Frame& frame);

/// Returns the time in the frame itself. For a device kernel, that is its duration on the device.
std::uint64_t own_time(const Frame& frame);

}  // namespace optrace
