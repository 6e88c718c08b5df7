#pragma once

#include <cstdint>
#include <unordered_map>

#include "report/model/report.h"

namespace optrace {

/// Where torch.compile gave a graph up, in what ran below a compiled function.
struct GraphBreaks {
  bool compiled = false;  ///< Something that torch.compile gave was called at all.
  /// How often it happened, by the frame that tells of it: the function that goes on behind a
  /// break, or one that was to be compiled and ran as it is written.
  std::unordered_map<const Frame*, std::uint64_t> at;
};

/// The keys point into the report.
GraphBreaks find_graph_breaks(const Report& report);

}  // namespace optrace
