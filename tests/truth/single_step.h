#pragma once

// What a thread really enters: every instruction between begin and end is single-stepped and a
// shadow stack is kept from the calls, jumps and returns themselves. No symbol heuristics, no
// unwind tables, no probes: this is the truth that optrace's tree is held against.
//
// The stepping is done inside the process, with the processor's trap flag and a SIGTRAP handler:
// one exception for an instruction, where ptrace needs two switches of process and three system
// calls more. The library is loaded with ctypes; single_step_prepare reads the symbols first, so
// that nothing is allocated, opened or locked while stepping.
//
// Limits: one thread (threads that it starts aren't followed, and starting one kills the process,
// because pthread_create blocks SIGTRAP); modules that are loaded while stepping have no names.

#include <cstdint>

extern "C" {

/// Reads the function entries of all modules that are loaded now. Returns null, or what was wrong
/// (static memory).
const char* single_step_prepare(std::uint64_t max_steps);

/// Steps the calling thread from the return of this call on.
void single_step_begin();

/// Stops stepping, and returns the instructions that were stepped.
std::uint64_t single_step_end();

/// Writes what was entered to `path`, in lines of words; symbols hold no blank:
///   module INDEX PATH
///   function INDEX MODULE ADDRESS SYMBOL     ADDRESS in hex, as linked; only functions entered
///   entry FUNCTION PARENT HOW DEPTH SLOT     PARENT: the number of the enclosing entry line from
///                                            0, or -1: entered before begin. SLOT in hex: where
///                                            the return address lies.
///   end STEPS                                a file without this line is truncated
/// HOW: `call`; `tail`, jumped to by its parent, which has left no frame; `turn`, a jump to its
/// own entry from inside its body, with its first entry's parent; `shift`, jumped to with the stack
/// pointer off its caller's return slot, as hand-written assembly does.
/// Returns null, or what was wrong (static memory).
const char* single_step_write(const char* path);
}
