#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace optrace {

/// Which element of the one sequence is which of the other: for each of `left` the index in
/// `right`, or kNone. A longest common subsequence (Myers 1986), found in O((n + m) d) for d
/// differences; with more than `most_differences` nothing is matched.
std::vector<std::uint32_t> align(std::span<const std::uint64_t> left,
                                 std::span<const std::uint64_t> right,
                                 std::size_t most_differences);

}  // namespace optrace
