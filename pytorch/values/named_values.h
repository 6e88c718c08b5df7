#pragma once

#include <vector>

#include "pytorch/values/library_call.h"

namespace optrace {

/// Returns the members of a call that are known, and its other values, by the names that they have
/// in a report's JSON. Without the number of calls and the duration.
std::vector<NamedValue> named_values(const LibraryCall& call);

/// Same, for the members of a launch.
std::vector<NamedValue> named_values(const Launch& launch);

bool is_number(const OpenValue& value);

}  // namespace optrace
