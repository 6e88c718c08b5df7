#pragma once

#include <cstdint>
#include <filesystem>

#include "tracer/probes/return_sites.h"

namespace optrace {

/// Returns the functions of this Python's torch whose result is a boolean, an enumeration, a small
/// integer or an optional of one of them, as the torch's index has them. Empty if no index of that
/// torch has the types of results. Throws Error(usage) if the torch can't be examined.
KnownResults known_results(const std::filesystem::path& python);

/// The same for the torch in a folder, site-packages/torch.
KnownResults known_results_of_torch(const std::filesystem::path& folder);

/// The usual number of values that a program's trace has for each place that calls such a function:
/// most places that decide something always decide the same, and where no jump fits, a value costs
/// a signal.
inline constexpr std::uint32_t kFirstReturns = 64;

}  // namespace optrace
