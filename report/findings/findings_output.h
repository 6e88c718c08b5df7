#pragma once

#include <string>
#include <vector>

#include "present/terminal_text.h"
#include "report/findings/findings.h"

namespace optrace {

/// For people: each finding with its reason, remedy and evidence. The findings must be of an
/// existing report.
std::string to_text(const std::vector<Finding>& findings, const TerminalStyle& style);

/// For programs: schema optrace.findings/1.
std::string to_json(const std::vector<Finding>& findings);

/// The table of rules, for people and for programs (schema optrace.findings/1).
std::string rules_text(const TerminalStyle& style);
std::string rules_json();

}  // namespace optrace
