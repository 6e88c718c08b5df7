#pragma once

#include <cstdint>
#include <optional>

#include "src/command_line/option_row.h"
#include "tracer/collect/path_counter.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

/// --ops PATTERN, which selects the ops to record. `selection` must outlive the row.
OptionRow ops_row(TraceSelection& selection);

/// --count N, the number of calls of ops to record. `selection` must outlive the row.
OptionRow count_row(TraceSelection& selection);

/// The part of a program to trace.
struct WindowOptions {
  std::uint64_t from_step = 0;  ///< 0: not given.
  std::uint64_t count = 0;      ///< Of steps with `from_step`, else of calls of ops. 0: all.
};

/// --from-step N and --count N. `window` must outlive the rows.
OptionRow window_rows(WindowOptions& window);

/// Returns the steps to trace; without --from-step, puts --count into `selection`. Throws
/// Error(usage) for options that exclude each other.
std::optional<StepWindow> take_window(const WindowOptions& window, TraceSelection& selection);

/// Throws Error(usage) for a selection that nothing can match.
void require_selection(const TraceSelection& selection);

/// Prints which condition no op call fulfilled. Returns false if the selection has no condition.
bool warn_of_empty_selection(const TraceSelection& selection);

}  // namespace optrace
