#pragma once

#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Traces the op that `optrace WORDS...` names, with the options of its call, without reporting it.
/// Throws WrongUsage or HelpAsked for other words, Error for any other failure.
Trace trace_op_command(const std::vector<std::string>& words);

}  // namespace optrace
