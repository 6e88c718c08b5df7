#pragma once

#include <cstdint>

namespace optrace::agent {

/// Memory, readable and writable, wholly inside [lowest, highest), as close to `wanted` as the
/// free address space allows; null when there is no such gap. Gaps that the heap or a stack will
/// want to grow into are not used up.
std::uint8_t* map_between(std::uint64_t lowest, std::uint64_t highest, std::uint64_t wanted,
                          std::uint64_t size);

}  // namespace optrace::agent
