#pragma once

#include "report/model/report.h"

namespace optrace {

/// Returns true unless everything that devices did is known, and was done for ops. Other kernels,
/// such as those of Triton or of a CUDA graph, may write to any tensor.
bool may_have_unseen_writes(const Report& report);

}  // namespace optrace
