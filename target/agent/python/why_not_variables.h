#pragma once

#include <cstdint>

#include "target/agent/python/python_interface.h"

namespace optrace::agent {

// Some functions of torch.nn keep the reason why they do not take a fast path in a local variable,
// `why_not_fast_path`. When such a function returns, the text of the variable is recorded. As in
// python_names.h, none of the program's code runs. Everything is called with the GIL held.

/// True if a function with such variables is known. For all others, nothing is done.
extern constinit bool
    any_why_not_variables;  // NOLINT(bugprone-dynamic-static-initializers): constinit.

/// Records the variables of a Python function. `name` is its qualified name.
void find_why_not_variables(const PythonInterface& python, void* code, const char* name,
                            std::uint64_t name_size);

/// Records the variables of the call that is about to end, if it has such variables and the
/// recording `round` has the call. `hook` is as in PythonCall.
void record_why_not_variables(const PythonInterface& python, std::uint32_t round, void* frame,
                              std::uint64_t hook);

/// Removes the variables of a code object that is being freed.
void remove_why_not_variables(void* code);

/// Removes all functions and records.
void remove_why_not_variables();

/// Removes the ids of records, which no longer exist.
void clear_why_not_records();

}  // namespace optrace::agent
