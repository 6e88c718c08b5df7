#pragma once

#include <nlohmann/json.hpp>

#include "report/compare/comparison.h"

namespace optrace {

/// Returns a difference as in optrace.comparison/1.
nlohmann::json json_of(const Difference& difference);

}  // namespace optrace
