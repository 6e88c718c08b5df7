#pragma once

#include <cstdint>
#include <unordered_map>

#include "report/model/report.h"

namespace optrace {

/// The graph breaks of torch.compile below compiled functions.
struct GraphBreaks {
  bool compiled = false;  ///< A function returned by torch.compile was called.
  /// Number of breaks by the frame that shows them: the function that continues after a break, or a
  /// function that Dynamo was to compile and that ran uncompiled instead.
  std::unordered_map<const Frame*, std::uint64_t> at;
};

/// The keys point into the report.
GraphBreaks find_graph_breaks(const Report& report);

}  // namespace optrace
