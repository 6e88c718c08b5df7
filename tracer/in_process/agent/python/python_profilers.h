#pragma once

#include <cstdint>

#include "tracer/in_process/agent/python/python_interface.h"
#include "tracer/in_process/agent/python/python_names.h"

namespace optrace::agent {

// A Python thread has room for one profile function. Ours is there while Python events are
// recorded, and the program may set one as well: sys.setprofile, cProfile before 3.12,
// torch.profiler, any library that calls PyEval_SetProfile. Ours then stays in front of it and
// hands it each event that it would get without us. When the program's ends, ours is still there.
//
// For this the ways to set one are led through functions of the agent's: the method definition of
// sys.setprofile, and the import tables of the libraries that call the C functions. The object that
// goes with the function is always the program's, so sys.getprofile() shows what the program set.
//
// All of this is called with the GIL held.

/// Gets each profile event of each thread that is listened to. `stack_pointer` is in the frame that
/// the interpreter called.
using ProfileListener = void (*)(void* frame, int event, void* argument,
                                 std::uint64_t stack_pointer);

// PyTrace_CALL and so on (Include/cpython/pystate.h), the same in all versions.
enum ProfileEvent : int {
  kCall = 0,
  kReturn = 3,
  kBuiltinCall = 4,
  kBuiltinException = 5,
  kBuiltinReturn = 6,
};

/// Listens to the calling thread. -EBUSY where somebody else's profile function is set and cannot
/// be kept behind ours: it is left alone. -ENOSYS where the interpreter takes none.
int listen_here(const PythonInterface& python, ProfileListener listener);

/// Listens to another thread of the main interpreter; an audit hook of the program's may refuse it.
void listen_to(void* thread);

/// Ends it: here at once, on other threads with their next event.
void end_listening();

/// In a forked child: the same, without touching Python.
void forget_listening();

/// A builtin is about to be called, for the first time, which may set profile functions; `type` is
/// the name, with its module, of the class whose method it is, empty where it is none.
void listen_to_builtin(MethodDefinition* definition, const char* type);

/// Libraries have been loaded, which may set profile functions.
void listen_to_new_libraries();

/// Puts ours back on threads that it was taken from in a way that could not be led through us.
/// Returns how many these were.
std::uint32_t regain_threads();

}  // namespace optrace::agent
