#pragma once

#include <cstdint>
#include <vector>

#include "report/model/timeline.h"
#include "tracer/collect/timeline_paths.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns true if the trace contains its calls one by one.
bool has_timeline(const Trace& trace);

/// Returns the timeline of a trace. `frame_numbers` has Frame::number for each path of `counted`.
Timeline timeline_of(const Trace& trace, const CountedTimeline& counted,
                     const std::vector<std::uint32_t>& frame_numbers);

}  // namespace optrace
