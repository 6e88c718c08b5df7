#pragma once

#include "report/findings/findings.h"
#include "src/command_line/command_line.h"

namespace optrace {

/// Adds --ignore NAME, which may be repeated. `options` must outlive `app`. An unknown name throws
/// Error(usage).
void add_ignore_option(Command& app, FindingOptions& options);

}  // namespace optrace
