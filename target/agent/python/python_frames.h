#pragma once

#include <cstdint>

#include "target/agent/python/python_interface.h"

namespace optrace::agent {

/// Access to the interpreter's frames (PythonFrames, event_buffer.h), whose layout is internal and
/// differs between versions. The assumed layout is compared with the results of the interpreter's
/// public functions before it is used; if they differ, frames are not read.

/// Locates the interpreter's code and its pointer to the current thread state. Call with the GIL
/// held, once in a process.
void prepare_python_frames(const PythonInterface& python);

/// Stores the calling thread's state for the probes; the thread must be running Python. Returns
/// true if its frames can be read. `frame` is the innermost frame, used to locate frames the first
/// time. Call with the GIL held.
bool enter_python_frames(const PythonInterface& python, void* frame);

/// Returns the thread's innermost frame, without calling Python; 0 if enter_python_frames() has not
/// returned true for the running thread state.
std::uint64_t current_frame_of_thread();

/// These require that enter_python_frames() returned true for the thread. They return its innermost
/// frame, the frame that called `frame` (0: none), and the code object that `frame` runs.
std::uint64_t innermost_frame();
std::uint64_t calling_frame(std::uint64_t frame);
std::uint64_t code_of_frame(std::uint64_t frame);

}  // namespace optrace::agent
