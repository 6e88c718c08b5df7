#pragma once

#include "tracer/collect/function_table.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds the jumps between the trace's functions that disassembly and the timeline show. The call
/// tree needs them to tell tail calls from coincidences. Call after all events have been added.
void add_jumps(Trace& trace, const FunctionTable& functions);

/// Returns all names of the functions so far by which calls and jumps through the PLT may refer to
/// them.
NamedFunctions names_of(const FunctionTable& functions);

}  // namespace optrace
