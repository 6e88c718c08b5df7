#pragma once

#include "pytorch/names/key_names.h"
#include "report/job/merged_contents.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds the times and counts of a path of `trace`, the one that `contents` got last, to those of
/// the merged path.
void add_counts(const Trace& trace, const TracePath& path, const KeyNames& names,
                MergedContents& contents, TracePath& sum);

}  // namespace optrace
