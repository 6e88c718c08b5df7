#pragma once

#include <cstdint>
#include <optional>

#include "src/command_line/command_line.h"
#include "tracer/collect/path_counter.h"
#include "tracer/launch/program_tracer.h"

namespace optrace {

/// Adds --ops PATTERN, which selects the ops to record. `selection` must outlive `command`.
void add_ops_option(Command& command, TraceSelection& selection);

/// Adds --count N, the number of calls of ops to record. `selection` must outlive `command`.
void add_count_option(Command& command, TraceSelection& selection);

/// The part of a program to trace.
struct WindowOptions {
  std::uint64_t from_step = 0;  ///< 0: not given.
  std::uint64_t count = 0;      ///< Of steps with `from_step`, else of calls of ops. 0: all.
};

/// Adds --from-step N and --count N. `window` must outlive `command`.
void add_window_options(Command& command, WindowOptions& window);

/// Returns the steps to trace; without --from-step, puts --count into `selection`. Throws
/// Error(usage) for options that exclude each other.
std::optional<StepWindow> take_window(const WindowOptions& window, TraceSelection& selection);

/// Throws Error(usage) for a selection that nothing can match.
void require_selection(const TraceSelection& selection);

/// Prints which condition no op call fulfilled. Returns false if the selection has no condition.
bool warn_of_empty_selection(const TraceSelection& selection);

}  // namespace optrace
