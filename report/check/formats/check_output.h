#pragma once

#include <string>
#include <vector>

#include "platform/exported.h"
#include "present/terminal_text.h"
#include "report/check/check.h"
#include "report/model/report.h"

namespace optrace {

/// For people: a line for each rule, with the path to what was found.
OPTRACE_EXPORTED std::string to_text(const std::vector<CheckResult>& results,
                                     const TerminalStyle& style);

/// For programs: schema optrace.check/1.
OPTRACE_EXPORTED std::string to_json(const Report& report, const std::vector<CheckResult>& results);

// For CI.

/// JUnit XML.
OPTRACE_EXPORTED std::string to_junit(const std::vector<CheckResult>& results);

/// SARIF 2.1.0.
OPTRACE_EXPORTED std::string to_sarif(const std::vector<CheckResult>& results);

/// Workflow commands of GitHub Actions.
OPTRACE_EXPORTED std::string to_github(const std::vector<CheckResult>& results);

}  // namespace optrace
