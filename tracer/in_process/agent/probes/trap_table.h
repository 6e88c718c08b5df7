#pragma once

#include <cstdint>

namespace optrace::agent {

/// Makes room for `count` further entries; must come before add_trap. False without memory.
bool reserve_traps(std::uint64_t count);

/// From now on an int3 at `entry` leads to `slot`. An entry that is known gets the new slot.
void add_trap(std::uint64_t entry, std::uint64_t slot);

/// The slot of the int3 at `entry`; 0 where there is none. Takes no lock: handlers call it.
std::uint64_t find_trap(std::uint64_t entry);

/// Forgets all entries. Only while no other thread can be in the handler.
void forget_traps();

}  // namespace optrace::agent
