#pragma once

#include <cstdint>

namespace optrace::agent {

/// Reserves room for `count` more entries. Must be called before add_trap. Returns false if memory
/// can't be allocated.
bool reserve_traps(std::uint64_t count);

/// From now on, an int3 at `entry` leads to `slot`. An existing entry gets the new slot.
void add_trap(std::uint64_t entry, std::uint64_t slot);

/// Returns the slot of the int3 at `entry`, or 0. Takes no lock, so handlers may call it.
std::uint64_t find_trap(std::uint64_t entry);

/// Returns a number that changes when entries are added or removed.
std::uint32_t traps_version();

/// Changes traps_version(), after a change that makes other data about functions out of date.
void change_traps_version();

/// Removes all entries. Call only while no other thread can be in the handler.
void clear_traps();

}  // namespace optrace::agent
