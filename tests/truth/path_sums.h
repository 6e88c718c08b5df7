#pragma once

#include <cstdint>
#include <string>

#include "tracer/trace/trace.h"

namespace optrace {

struct PathSums {
  std::uint64_t paths = 0;        ///< Distinct paths, of the timeline or the trees.
  std::uint64_t differences = 0;  ///< Paths whose numbers of calls differ.
  std::string first;              ///< Description of the first difference; empty: none.
};

/// Compares a timeline's paths with the sums of its threads' call trees, in which each call is a
/// node. The paths were counted with cached outcomes of the call tree's rules; the trees are made
/// by the rules alone. Links between threads are ignored on both sides: the body of a parallel
/// region counts as a root, and autograd nodes are distinguished by name only, not by the op that
/// made them.
PathSums compare_path_sums(const Trace& trace);

}  // namespace optrace
