#pragma once

#include <nlohmann/json.hpp>

#include "report/model/compilation.h"

namespace optrace {

/// Reads an element of a report's `compilations` (report.schema.json), which is untrusted: what is
/// invalid is skipped. `json` may be any JSON.
Compilation compilation_of(const nlohmann::json& json);

}  // namespace optrace
