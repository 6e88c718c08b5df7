#pragma once

#include <cstdint>

namespace optrace::agent {

/// What is larger than this, in bytes, is best a multiple of kHugePage.
constexpr std::uint64_t kWorthHugePages = 1ULL << 20;

/// Memory, readable and writable, wholly inside [lowest, highest), as close to `wanted` as the
/// free address space allows; null when there is no such gap. Gaps that the heap or a stack will
/// want to grow into are not used up. Much of it comes in huge pages where the system has
/// them, so that slots cost few TLB entries.
std::uint8_t* map_between(std::uint64_t lowest, std::uint64_t highest, std::uint64_t wanted,
                          std::uint64_t size);

}  // namespace optrace::agent
