#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace optrace {

/// Aligns two sequences. Returns, for each element of `left`, the index of its match in `right`, or
/// kNone. The matches are a longest common subsequence (Myers 1986), found in O((n + m) d) time for
/// d differences. With more than `most_differences`, nothing is matched.
std::vector<std::uint32_t> align(std::span<const std::uint64_t> left,
                                 std::span<const std::uint64_t> right,
                                 std::size_t most_differences);

}  // namespace optrace
