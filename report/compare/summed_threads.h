#pragma once

#include "report/model/report.h"

namespace optrace {

/// Sums up the frames of different threads that are the same calls: which thread of a pool does
/// which part of the work differs from run to run.
Report with_threads_summed(Report report);

}  // namespace optrace
