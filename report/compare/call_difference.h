#pragma once

#include <string>

namespace optrace {

/// Differences between the library calls, or launches of a device kernel, of two frames, as text.
/// Both texts are empty if there are none.
struct CallDifference {
  std::string before, after;
  /// Differences between choices of heuristics of which one side is emulated and may not match the
  /// real library's.
  std::string not_known_before, not_known_after;
};

/// Compares detail's `calls` and `launches`: arguments, and how often each kind occurs per call of
/// the frame. Identities (streams, a graph's numbers for its tensors) are ignored. If one of the
/// two was emulated, so are keys that only the other has (a kernel's time, registers).
CallDifference compare_calls(const Frame& before, const Frame& after);

}  // namespace optrace
