#pragma once

#include "report/model/report.h"

namespace optrace {

/// What a comparison looks at, and nothing else: no symbols, lines, tensors and threads. It is a
/// report like any other, some tenth as long, and changes only where something is done otherwise;
/// so it can be kept beside a program's source.
Report for_baseline(const Report& report);

}  // namespace optrace
