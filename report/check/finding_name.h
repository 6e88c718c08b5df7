#pragma once

#include <string>

namespace optrace {

/// Throws Error(usage), with similar names, unless there is a rule for findings of that name.
void require_finding_rule(const std::string& name);

}  // namespace optrace
