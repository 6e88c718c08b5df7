#pragma once

#include <cstdint>
#include <string>

#include "tracer/trace/trace.h"

namespace optrace {

struct PathSums {
  std::uint64_t paths = 0;        ///< Different ones, of either kind.
  std::uint64_t differences = 0;  ///< Paths whose calls are not the same.
  std::string first;              ///< The first difference in words; empty: none.
};

/// Holds a timeline's paths against the call trees of its threads, each call a node of its own,
/// added up: the paths were counted with a memory of what the rules said before, the trees are made
/// by the rules alone. What is linked across threads is left out on both sides: a parallel region's
/// body counts as a root, and nodes are told apart by their name only, not by what made them.
PathSums compare_path_sums(const Trace& trace);

}  // namespace optrace
