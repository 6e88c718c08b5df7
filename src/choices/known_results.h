#pragma once

#include <filesystem>

#include "tracer/probes/return_sites.h"

namespace optrace {

/// Returns the functions of this Python's torch whose result is a boolean, an enumeration, a small
/// integer or an optional of one of them, as the torch's index has them. Empty if no index of that
/// torch has the types of results. Throws Error(usage) if the torch can't be examined.
KnownResults known_results(const std::filesystem::path& python);

}  // namespace optrace
