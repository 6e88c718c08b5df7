#pragma once

#include <memory>

#include "tracer/trace/trace.h"

namespace optrace {

/// Merges the traces of a job's processes into one: a path that several processes took becomes one
/// path with their calls added up. What is equal is decided by content: symbols, names, places and
/// op records. The result does not depend on the order or the grouping of the traces, and merged
/// traces can be merged further. Memory grows with the different paths, not with the traces.
class TraceMerge {
 public:
  TraceMerge();
  ~TraceMerge();
  TraceMerge(const TraceMerge&) = delete;
  TraceMerge& operator=(const TraceMerge&) = delete;

  /// Adds a trace; its timeline is ignored. Throws Error(usage) if the trace is of another torch
  /// than the first one, if it was added before, or if it is corrupt. Only the destructor may be
  /// called after that.
  void add(const Trace& trace);

  /// Returns the merged trace, once. At least one trace must have been added. The paths are in the
  /// order in which the first process (comes_before() in merged_processes.h) that took them did.
  Trace take();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace optrace
