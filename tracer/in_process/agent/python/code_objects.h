#pragma once

#include "tracer/in_process/agent/python/python_interface.h"

namespace optrace::agent {

/// Has forget_function() called for each code object of the main interpreter that ends, from now
/// on: its address may then come to mean another one. With the GIL; more than once is no mistake.
void watch_code_objects(const PythonInterface& python);

/// Ends it. Calls nothing of Python's.
void leave_code_objects();

}  // namespace optrace::agent
