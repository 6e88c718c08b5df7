#pragma once

#include <span>
#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Reads the traces of a job's processes, one after another, and returns them as one
/// (report/job/trace_merge.h), without their timelines. Shows progress on a terminal. Throws
/// Error(usage) if a trace can't be read or merged. An
/// InterruptGuard must exist.
Trace merge_trace_files(const std::vector<std::string>& files);

/// Returns the traces of a job's processes as one. Throws Error(usage) if they can't be merged.
Trace merge_traces(std::span<const Trace> traces);

}  // namespace optrace
