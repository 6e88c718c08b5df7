#pragma once

#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Runs an optrace command line that traces, `conv2d --dtype float16` or `run train.py`, and
/// returns its traces instead of a report: one for an op, one per process for a program. `optrace`
/// may come first. Words are split by split_words(), without a shell. A program's standard output
/// goes to standard error. Throws Error(usage) for any other command line and for options of the
/// report's output; Error(failed) for a program that failed; and the exceptions of tracing.
std::vector<Trace> trace_command(const std::string& line);

}  // namespace optrace
