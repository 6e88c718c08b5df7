#pragma once

#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds Detail::workspace_queries to the frames of LAPACK's functions. Calls that compute have op
/// records, and those that ask for a size have none; nothing is added if a record may be missing.
void add_workspace_queries(Report& report, const Trace& trace);

}  // namespace optrace
