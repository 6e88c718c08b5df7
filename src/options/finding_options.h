#pragma once

#include "report/findings/findings.h"
#include "src/command_line/option_row.h"

namespace optrace {

/// --ignore NAME, which may be repeated. `options` must outlive the row. An unknown name throws
/// Error(usage).
OptionRow ignore_row(FindingOptions& options);

}  // namespace optrace
