#pragma once

#include <cstdint>

#include "tracer/in_process/agent/python/python_interface.h"

namespace optrace::agent {

/// How the interpreter keeps its frames (PythonFrames, event_buffer.h) is its own business, and
/// differs between versions. What is known of it is held against what the interpreter's public
/// functions say before anything relies on it; where the two differ, frames are not read.

/// Finds where the interpreter's code lies, and where it says which thread state runs. With the
/// GIL; once in a process.
void prepare_python_frames(const PythonInterface& python);

/// The calling thread runs Python: notes its thread state for the probes. True if its frames can be
/// read. `frame` is the innermost one, by which they are found the first time. With the GIL.
bool enter_python_frames(const PythonInterface& python, void* frame);

/// Of a thread for which that is true: its innermost frame; the frame that called one, 0 for none;
/// the code object that one runs.
std::uint64_t innermost_frame();
std::uint64_t calling_frame(std::uint64_t frame);
std::uint64_t code_of_frame(std::uint64_t frame);

}  // namespace optrace::agent
