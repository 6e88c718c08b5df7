#pragma once

// Records the functions that a thread actually enters. Every instruction between begin and end is
// single-stepped, and a shadow stack is maintained from the calls, jumps and returns themselves.
// This uses no symbol heuristics, no unwind tables and no probes: it is the ground truth that
// optrace's tree is compared with.
//
// The stepping is done inside the process, with the processor's trap flag and a SIGTRAP handler. It
// takes one exception per instruction, where ptrace needs two context switches and three additional
// system calls. The library is loaded with ctypes. single_step_prepare reads the symbols in
// advance, so that nothing is allocated, opened or locked while stepping.
//
// Limits: only one thread is stepped. Threads that it starts aren't followed, and starting one
// kills the process, because pthread_create blocks SIGTRAP. Modules that are loaded while stepping
// have no names.

#include <cstdint>

extern "C" {

/// Reads the function entries of all modules that are loaded now. Returns null, or an error message
/// in static memory.
const char* single_step_prepare(std::uint64_t max_steps);

/// Steps the calling thread from the return of this call on.
void single_step_begin();

/// Stops stepping. Returns the number of instructions that were stepped.
std::uint64_t single_step_end();

/// Writes the recorded entries to `path`, as lines of words (symbols contain no blanks):
///   module INDEX PATH
///   function INDEX MODULE ADDRESS SYMBOL     ADDRESS in hex, as linked; only functions entered
///   entry FUNCTION PARENT HOW DEPTH SLOT     PARENT: the number of the enclosing entry line, from
///                                            0, or -1 if entered before begin. SLOT: the address
///                                            of the return address, in hex.
///   end STEPS                                a file without this line is truncated
/// HOW is one of: `call`; `tail`, a tail call by the parent, which has no frame any more; `turn`, a
/// jump to the function's entry from inside its body, with the parent of its first entry; `shift`,
/// a jump while the stack pointer is not at the caller's return slot, as in hand-written assembly.
/// Returns null, or an error message in static memory.
const char* single_step_write(const char* path);
}
