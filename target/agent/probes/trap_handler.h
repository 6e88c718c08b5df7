#pragma once

#include <csignal>

namespace optrace::agent {

/// Installs the SIGTRAP handler and saves the previous one. Does nothing if it is already
/// installed. Returns 0 or -errno.
int install_trap_handler();

/// Restores the previous SIGTRAP handler once no thread has a pending trap of ours. If other code
/// has installed a handler over ours, ours stays and only passes signals on. `none_in_traps`
/// asserts that no other thread can be in a trap; otherwise this function checks.
void restore_trap_handler(bool none_in_traps);

/// What the program does on SIGTRAP: signals that are no trap of ours are passed on to it. Any
/// number of threads may call these functions, also in handlers of signals.
struct sigaction program_trap_action();
void set_program_trap_action(const struct sigaction& action);

}  // namespace optrace::agent
