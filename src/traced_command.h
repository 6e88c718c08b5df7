#pragma once

#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Runs what an optrace command line traces, `conv2d --dtype float16` or `run train.py`, and gives
/// its traces instead of a report: an op's, or those of the processes of a program. `optrace` may
/// come first; words are split as split_words() does, and no shell reads them. What a program
/// prints goes to standard error. Throws Error(usage) for what is no such command line, or has
/// options that say where a report goes; Error(failed) for a program that failed; and whatever
/// tracing throws.
std::vector<Trace> trace_command(const std::string& line);

}  // namespace optrace
