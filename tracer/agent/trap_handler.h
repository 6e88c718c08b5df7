#pragma once

#include <cstdint>

namespace optrace::agent {

/// Makes room for `count` further entries; must come before add_trap. False without memory.
bool reserve_traps(std::uint64_t count);

/// From now on an int3 at `entry` leads to `slot`. An entry that is known gets the new slot.
void add_trap(std::uint64_t entry, std::uint64_t slot);

/// Takes SIGTRAP over, keeping whose it was. 0 or -errno; nothing when it is ours already.
int install_trap_handler();

/// Gives SIGTRAP back, once no thread has one of our traps still to be delivered. Where somebody
/// else has put a handler over ours, ours stays behind it and only passes signals on.
/// `none_in_traps`: the caller knows that no other thread can be in one; else it is looked at.
void restore_trap_handler(bool none_in_traps);

/// Forgets all entries. Only while no other thread can be in the handler.
void forget_traps();

}  // namespace optrace::agent
