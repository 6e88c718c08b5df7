#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace optrace {

/// Returns ranks or process ids, as in a frame's detail, for a sentence: `0, 1, 5` or `0 to 1023`.
/// A long list is cut off: `12, 17, 31, 45, 52, 60, 73, 81 and 24 more`.
std::string process_names(const std::vector<std::uint64_t>& list);

}  // namespace optrace
