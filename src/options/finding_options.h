#pragma once

#include <CLI/App.hpp>

#include "report/findings/findings.h"

namespace optrace {

/// Adds --ignore NAME, which may be repeated. `options` must outlive `app`. An unknown name throws
/// Error(usage).
void add_ignore_option(CLI::App& app, FindingOptions& options);

}  // namespace optrace
