#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

#include "platform/exported.h"
#include "report/model/report.h"

namespace optrace {

/// Returns the time in the frame and the frames below it, but not in autograd nodes, of all calls,
/// in nanoseconds; 0 if it was not recorded.
std::uint64_t total_time(const Frame& frame);

/// The key of a frame's time in the JSON of its detail.
inline constexpr const char* kTimeKey = "time";

/// Returns the time as in the JSON: {"total", "shortest", "longest"}.
nlohmann::json time_json(const FrameTime& time);

/// Returns a frame's `detail` as in the JSON, which has its time.
OPTRACE_EXPORTED nlohmann::json detail_with_time(const Frame& frame);

/// Returns true for an autograd node. It is below the op whose derivative it computes, but runs
/// later: its time is not part of the op's.
bool is_backward(const Frame& frame);

/// Returns the time in the frame itself. For a device kernel, that is its duration on the device.
std::uint64_t own_time(const Frame& frame);

}  // namespace optrace
