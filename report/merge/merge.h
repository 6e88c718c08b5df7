#pragma once

#include "indexer/store/index_store.h"
#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

struct MergeOptions {
  bool all = false;    ///< Keep wrapper templates, interpreter frames and runtime libraries.
  bool times = false;  ///< Adds the duration of each path: detail's key "time".
  /// Adds the calls one by one: Report::timeline. The frames are those of the timeline's calls.
  bool timeline = false;
  bool entries = false;  ///< Adds where functions begin: Report::entries.
};

/// Returns the report of a trace: its paths as frames, with the layers, sources and decisions of
/// their functions. `index` may be null; then no C++ frame has a source. Throws Error(usage) if the
/// trace or the index is corrupt, or the trace lacks a timeline that is asked for.
Report merge(const Trace& trace, const Index* index, const MergeOptions& options);

}  // namespace optrace
