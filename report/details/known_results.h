#pragma once

#include <cstdint>
#include <filesystem>

#include "tracer/probes/return_sites.h"

namespace optrace {

/// Returns what is recorded of the results of this Python's torch's functions, as the torch's index
/// has their types: booleans, enumerations, integers of at most 4 bytes and optionals of one of
/// them; and, where the caller tests or compares the result, integers of 8 bytes and whether a
/// pointer is null. Empty if no index of that
/// torch has the types of results. Throws Error(usage) if the torch can't be examined.
KnownResults known_results(const std::filesystem::path& python);

/// The same for the torch in a folder, site-packages/torch.
KnownResults known_results_of_torch(const std::filesystem::path& folder);

/// The usual number of values that a program's trace has for each place that calls such a function:
/// most places that decide something always decide the same, and where no jump fits, a value costs
/// a signal.
inline constexpr std::uint32_t kFirstReturns = 64;

}  // namespace optrace
