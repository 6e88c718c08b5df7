#pragma once

// Records the functions that a thread actually enters. The thread is followed from begin to end,
// and a shadow stack is maintained from the calls, jumps and returns themselves. This uses no
// symbol heuristics, no unwind tables and no probes: it is the ground truth that optrace's tree is
// compared with.
//
// The thread is followed inside the process, with breakpoints, the processor's trap flag and a
// SIGTRAP handler. Wherever the thread arrives, the handler decodes the code from there on, along
// all direct jumps. It sets a breakpoint on each call, return and indirect jump, and on each
// instruction that may continue at a function's entry. Only these can change the shadow stack. The
// code between them runs at full speed. Code outside of the modules, such as compiled kernels, is
// stepped by instruction. Tests step everything by instruction and compare the entries.
//
// The library is loaded with ctypes. single_step_prepare reads the symbols in advance, so that
// nothing is allocated, opened or locked while stepping.
//
// Limits: only one thread is stepped. Threads that it starts aren't followed, and starting one
// kills the process, because pthread_create blocks SIGTRAP. A thread that reaches a breakpoint of
// the stepped one ends the stepping with an error. Modules that are loaded while stepping have no
// names, and none may be unloaded.

#include <cstdint>

extern "C" {

/// Reads the function entries of all modules that are loaded now. With `every_instruction` no
/// breakpoints are set. Returns null, or an error message in static memory.
const char* single_step_prepare(std::uint64_t max_steps, int every_instruction);

/// Steps the calling thread from the return of this call on.
void single_step_begin();

/// Stops stepping. Returns the number of steps. A step is an instruction with a breakpoint, or one
/// that was stepped with the trap flag.
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
