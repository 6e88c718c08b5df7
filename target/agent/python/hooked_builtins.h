#pragma once

#include "target/agent/python/profiler_state.h"
#include "target/agent/python/python_names.h"

namespace optrace::agent::profilers {

/// A builtin with one argument or none.
using BuiltinOfOne = void* (*)(void* self, void* argument);

/// Returns the definition of a builtin function of the module sys, or null if it is not the
/// interpreter's own.
MethodDefinition* builtin_of_sys(const char* name);

/// Replaces the functions of the builtins that set profile functions without going through an
/// import table, as far as they are known.
void hook_builtins();

/// Same, for this builtin if it is one of them. `type` as for listen_to_builtin().
void hook_builtin(MethodDefinition* definition, const char* type);

void restore_builtins();

}  // namespace optrace::agent::profilers
