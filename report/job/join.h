#pragma once

#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Puts the reports of several processes of one job beside each other: keeps the frames of each
/// process apart, with all of their detail. `processes` lists all processes. A single report is
/// returned unchanged. Throws Error(usage) if the reports are of different torches.
Report join(std::vector<Report> reports);

}  // namespace optrace
