#pragma once

#include <cstdint>

#include "report/model/frame.h"

namespace optrace {

/// Returns the time in the frame and the frames below it, but not in autograd nodes, of all calls,
/// in nanoseconds; 0 if it was not recorded.
std::uint64_t total_time(const Frame& frame);

/// Returns true for an autograd node. It is below the op whose derivative it computes, but runs
/// later: its time is not part of the op's.
bool is_backward(const Frame& frame);

/// Returns the time in the frame itself. For a device kernel, that is its duration on the device.
std::uint64_t own_time(const Frame& frame);

}  // namespace optrace
