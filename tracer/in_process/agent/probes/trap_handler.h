#pragma once

#include <cstdint>

namespace optrace::agent {

/// Takes SIGTRAP over, keeping whose it was. 0 or -errno; nothing when it is ours already.
int install_trap_handler();

/// Gives SIGTRAP back, once no thread has one of our traps still to be delivered. Where somebody
/// else has put a handler over ours, ours stays behind it and only passes signals on.
/// `none_in_traps`: the caller knows that no other thread can be in one; else it is looked at.
void restore_trap_handler(bool none_in_traps);

}  // namespace optrace::agent
