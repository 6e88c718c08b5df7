#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tracer/collect/memory_budget.h"
#include "tracer/collect/op_selection.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Sets the trace's paths and statistics from its timeline, which may be dropped afterwards, and
/// adds to its warnings. Throws Error(usage) if an event refers to something that the trace does
/// not have.
void count_paths(Trace& trace, const TraceSelection& selection,
                 std::shared_ptr<MemoryBudget> budget = nullptr);

/// A call of a path, from its entry until something outside of it was recorded. Times as in Event.
struct PathCall {
  std::uint32_t path = kNone;  ///< Index into the paths.
  std::uint64_t start = 0;
  std::uint64_t end = 0;
};

/// The paths and calls of a timeline. The paths are not exactly those of its trace, which was
/// counted while the program ran: they lack the columns of Python's lines and end with the
/// timeline.
struct CountedTimeline {
  std::vector<TracePath> paths;
  CallTreeStatistics statistics;
  /// The calls of each thread, in the order of their starts, callers before what they call. They
  /// nest strictly.
  std::vector<std::vector<PathCall>> calls;
};

/// Counts a trace's timeline. Throws Error(usage) if an event refers to something that the trace
/// does not have.
CountedTimeline count_timeline(const Trace& trace, const TraceSelection& selection);

}  // namespace optrace
