#pragma once

#include "target/agent/python/python_interface.h"

namespace optrace::agent {

/// From now on, remove_function() is called for each code object of the main interpreter that is
/// freed, because its address may be reused. Must be called with the GIL held. Repeated calls have
/// no effect.
void watch_code_objects(const PythonInterface& python);

/// Stops watching. Does not call Python.
void leave_code_objects();

}  // namespace optrace::agent
