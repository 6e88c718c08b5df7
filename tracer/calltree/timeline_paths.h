#pragma once

#include <memory>

#include "tracer/calltree/memory_budget.h"
#include "tracer/calltree/op_selection.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Sets the trace's paths and statistics from its timeline, which may be dropped afterwards, and
/// adds to its warnings. Throws Error(usage) if an event refers to something that the trace does
/// not have.
void count_paths(Trace& trace, const TraceSelection& selection,
                 std::shared_ptr<MemoryBudget> budget = nullptr);

}  // namespace optrace
