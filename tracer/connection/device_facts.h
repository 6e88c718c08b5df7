#pragma once

#include "gpu/build/dry_run.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Adds the emulated device to a trace, and a warning for each CUDA function that was called and is
/// not emulated.
void describe_dry_run(const DryRun& dry_run, Trace& trace);

/// Adds warnings to a trace for device work that is missing according to its records.
void add_activity_warnings(Trace& trace);

}  // namespace optrace
