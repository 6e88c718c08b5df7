#pragma once

#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Traces the program that `optrace WORDS...` runs, the first word being `run`, without reporting
/// it. Returns the traces of the program's processes that used torch, beginning with the process
/// that was started first. Throws WrongUsage or HelpAsked for other words, Error(failed) for a
/// program that failed or did nothing.
std::vector<Trace> trace_run_command(const std::vector<std::string>& words);

}  // namespace optrace
