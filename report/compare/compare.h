#pragma once

#include "report/compare/comparison.h"
#include "report/model/report.h"

namespace optrace {

struct CompareOptions {
  /// Also list frames between the steps if the reports are of different builds of PyTorch.
  bool all = false;
};

/// Returns true if two reports are of the same build of PyTorch, in which the same code is inlined.
bool is_same_build(const Report& first, const Report& second);

/// Compares two reports, in the order of their trees. Frames are matched by layer and by op or name
/// without template arguments, below frames that match; lines and addresses are ignored. The search
/// continues below a frame without a match, so a step is also found below a function that is new,
/// gone or renamed. For different builds of PyTorch, only the steps are compared: ops, their
/// kernels, autograd nodes, library calls, device kernels and the program's own functions.
Comparison compare(const Report& first, const Report& second, const CompareOptions& options = {});

}  // namespace optrace
