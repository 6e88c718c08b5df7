#pragma once

#include <cstdint>

namespace optrace::agent {

/// A size above this, in bytes, should be a multiple of kHugePage.
constexpr std::uint64_t kWorthHugePages = 1ULL << 20;

/// Maps readable and writable memory inside [lowest, highest), as close to `goal` as the free
/// address space allows. Returns null if there is no such gap. Gaps into which the heap or a stack
/// grows are not used up. Large mappings use huge pages where the system has them, so that slots
/// need few TLB entries.
std::uint8_t* map_between(std::uint64_t lowest, std::uint64_t highest, std::uint64_t goal,
                          std::uint64_t size);

}  // namespace optrace::agent
