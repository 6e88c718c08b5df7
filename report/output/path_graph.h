#pragma once

#include <string>

#include "report/model/report.h"

namespace optrace {

// The frames of a report as a graph: one node for each function of a layer, with its file and line,
// and an edge from each caller, with the number of calls.

/// Returns the graph for Graphviz.
std::string to_dot(const Report& report);

/// Returns the graph for Mermaid, which GitHub shows in Markdown. Mermaid draws at most 500 edges.
std::string to_mermaid(const Report& report);

}  // namespace optrace
