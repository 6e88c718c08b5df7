#pragma once

#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The reports of several processes of one job, as one: what several took is one frame, with their
/// calls added up. Where not all took a path, its frames' detail says who did ("ranks", or
/// "processes" where a process has none). `processes` lists them, and
/// meta["differences"] has a sentence for every group of them whose paths are not the others'.
/// A single report comes back as it is. Throws Error(usage) when they are not of the same torch.
Report combine(std::vector<Report> reports);

/// The same with the frames of each process for themselves, and all of their detail.
Report join(std::vector<Report> reports);

}  // namespace optrace
