#pragma once

#include <vector>

#include "lookup/calls/static_path.h"

namespace optrace {

/// Sorts the paths of an op, the likeliest first; `paths` must be sorted by their length. Computing
/// comes before bookkeeping, paths related to the op's name before detours and other variants,
/// libraries before PyTorch's own kernels, and those before copies by the CUDA runtime. Among
/// functions that differ only in their precision, the one for PyTorch's default dtype comes first.
void sort_paths(std::vector<StaticPath>& paths);

}  // namespace optrace
