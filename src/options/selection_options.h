#pragma once

#include <CLI/App.hpp>

#include "tracer/calltree/path_counter.h"

namespace optrace {

/// Adds --ops PATTERN, which selects the ops to record. `selection` must outlive `command`.
void add_ops_option(CLI::App& command, TraceSelection& selection);

/// Adds --count N, the number of calls of ops to record. `selection` must outlive `command`.
void add_count_option(CLI::App& command, TraceSelection& selection);

/// Throws Error(usage) for a selection that nothing can match.
void require_selection(const TraceSelection& selection);

/// Prints which condition no op call fulfilled. Returns false if the selection has no condition.
bool warn_of_empty_selection(const TraceSelection& selection);

}  // namespace optrace
