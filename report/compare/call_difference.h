#pragma once

#include <string>

#include "report/model/report.h"

namespace optrace {

/// In what two frames' library calls, or launches of a device kernel, differ, as text; two empty
/// texts: in nothing.
struct CallDifference {
  std::string before, after;
  /// What differs in the choices of an emulated library's heuristics, which are not the real one's.
  std::string not_known_before, not_known_after;
};

/// Compares detail's `calls` and `launches`: arguments, and how often each kind occurs for each
/// time of the frame. Identities (streams, a graph's numbers for its tensors) are not looked at,
/// nor, where one of the two was emulated, what only the other has (a kernel's time, registers).
CallDifference compare_calls(const Frame& before, const Frame& after);

}  // namespace optrace
