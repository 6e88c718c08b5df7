#pragma once

#include "report/details/call_detail.h"
#include "report/merge/report_path.h"
#include "report/merge/traced_functions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns the paths that the report shows: all of the trace's if `all` is true, else without those
/// of hidden functions, which are folded into the shown path above them. An autograd node is below
/// the op that made it, wherever the engine ran it. Parents come before their children. Throws
/// Error(usage) if the index is corrupt.
ReportPathSet select_paths(const Trace& trace, TracedFunctions& functions, const CallDetails& calls,
                           bool all);

}  // namespace optrace
