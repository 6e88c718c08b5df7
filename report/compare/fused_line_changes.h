#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// A line of a program whose ops torch.compile fused in one of two reports, or in both.
struct FusedLineChange {
  std::string file;
  std::uint64_t line = 0;
  /// The names of the ops, autograd nodes and generated kernels that the line leads to in each
  /// report, sorted. A kernel is at each line that it was fused from.
  std::vector<std::string> before, after;
};

/// Returns the lines that lead to something else in the second report, in the order of the files;
/// none if no report has generated kernels.
std::vector<FusedLineChange> fused_line_changes(const Report& first, const Report& second);

}  // namespace optrace
