#pragma once

#include <utility>

#include "report/merge/merge.h"
#include "report/model/report.h"
#include "tracer/collect/timeline_paths.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns the report of a trace that has a timeline and no paths yet.
inline Report merge_timeline(Trace trace, const Index* index, const MergeOptions& options) {
  count_paths(trace, {});
  return merge(trace, index, options);
}

}  // namespace optrace
