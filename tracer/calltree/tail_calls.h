#pragma once

#include "tracer/calltree/function_table.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds what disassembly and the timeline tell about how the trace's functions jump to each other:
/// what the call tree needs in order to tell tail calls from chance. Only once all events are in.
void add_jumps(Trace& trace, const FunctionTable& functions);

/// All names of the functions so far, under which a call or jump through the PLT may mean one.
NamedFunctions names_of(const FunctionTable& functions);

}  // namespace optrace
