#pragma once

#include <string>
#include <vector>

#include "tracer/trace/trace.h"

namespace optrace {

/// Traces what `optrace WORDS...` would, an op with the options that say how it is called, without
/// reporting it. Throws CLI::ParseError for other words, Error for whatever goes wrong.
Trace trace_op_command(const std::vector<std::string>& words);

}  // namespace optrace
