#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include "report/lines/text_options.h"
#include "report/model/report.h"

namespace optrace {

/// Returns what was traced, and warnings, with an empty line at the end. The lists of inputs,
/// differences and warnings have at most `max_entries` each, and the number of the others.
std::string report_header(const Report& report, const ReportTextOptions& options,
                          std::size_t max_entries = std::numeric_limits<std::size_t>::max());

}  // namespace optrace
