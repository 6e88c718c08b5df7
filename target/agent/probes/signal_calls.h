#pragma once

namespace optrace::agent {

/// Redirects the calls by which a program would replace the handler of SIGTRAP or block the signal,
/// because the next int3 would end it: sigaction(), signal(), sigprocmask() and pthread_sigmask().
/// The program's own handler is the one that signals are passed on to (trap_handler.h), and a
/// thread that blocks SIGTRAP is told that it does. Applies to all loaded modules, unless that was
/// done before. Only one call of these functions at a time.
void redirect_signal_calls();

/// Does the same for a module that was loaded since, which contains the address `inside`; for all
/// of them, if that is null. Does nothing if the calls are not redirected.
void redirect_signal_calls_of_loaded(const void* inside);

/// To be called in a forked child. One that shares its parent's memory (vfork) doesn't call it, and
/// its calls are its own.
void adopt_signal_calls();

}  // namespace optrace::agent
