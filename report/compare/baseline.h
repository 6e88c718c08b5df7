#pragma once

#include "report/model/report.h"

namespace optrace {

/// Returns a copy of the report with only the parts that a comparison uses, without symbols, lines,
/// tensors and threads. The result is a valid report of about a tenth of the size. It changes only
/// if the program's behaviour changes, so it can be kept next to the program's source.
Report for_baseline(const Report& report);

}  // namespace optrace
