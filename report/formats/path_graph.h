#pragma once

#include "platform/files/output_sink.h"
#include "report/model/report.h"

namespace optrace {

// The frames of a report as a graph: one node for each function of a layer, with its file and line,
// and an edge from each caller, with the number of calls.

/// Writes the graph for Graphviz.
void to_dot(const Report& report, OutputSink& sink);

}  // namespace optrace
