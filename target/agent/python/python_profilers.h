#pragma once

#include <atomic>
#include <cstdint>

#include "target/agent/python/python_interface.h"
#include "target/agent/python/python_names.h"

namespace optrace::agent {

// A Python thread has room for one profile function. The agent's is set while Python events are
// recorded, but the program may set one as well: sys.setprofile, cProfile before 3.12,
// torch.profiler, any library that calls PyEval_SetProfile. In that case the agent's function stays
// set and forwards each event that the program's function would get without it. When the program
// removes its function, the agent's is still set.
//
// To do this, the agent redirects the ways to set a profile function: the method definition of
// sys.setprofile, and the import tables of libraries that call the C functions. The object that
// belongs to the function is always the program's, so sys.getprofile() returns what the program
// set.
//
// All functions here are called with the GIL held.

/// Receives each profile event of each thread that is listened to. `stack_pointer` is in the frame
/// of the function that the interpreter called.
using ProfileListener = void (*)(void* frame, int event, void* argument,
                                 std::uint64_t stack_pointer);

// PyTrace_CALL and so on (Include/cpython/pystate.h); the same in all versions.
enum ProfileEvent : int {
  kCall = 0,
  kReturn = 3,
  kBuiltinCall = 4,
  kBuiltinException = 5,
  kBuiltinReturn = 6,
};

/// Starts listening on the calling thread. Returns -EBUSY if another profile function is set to
/// which events can't be forwarded (it is left alone), -ENOSYS if the interpreter does not accept a
/// function.
int listen_here(const PythonInterface& python, ProfileListener listener);

/// Thread state of a thread of the tracer, which is not listened to.
inline std::atomic<void*> left_out = nullptr;

/// Starts listening on another thread of the main interpreter. An audit hook of the program may
/// reject this.
void listen_to(void* thread);

/// Stops listening: on the calling thread immediately, on other threads at their next event.
void end_listening();

/// For a forked child: stops listening without calling Python.
void reset_listening();

/// To be called before the first call of a builtin, which may set profile functions. `type` is the
/// name, with its module, of the class whose method it is; empty if it is not a method.
void listen_to_builtin(MethodDefinition* definition, const char* type);

/// To be called after libraries were loaded, which may set profile functions.
void listen_to_new_libraries();

/// Sets the agent's function again on threads where it was replaced in a way that was not
/// redirected. Returns the number of these threads.
std::uint32_t reinstall_profilers();

}  // namespace optrace::agent
