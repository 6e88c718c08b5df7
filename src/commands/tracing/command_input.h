#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What a command reads: traces, reports or commands to run.
struct CommandInput {
  Report report;
  /// The traces that the report was made of; empty if the input is a report.
  std::vector<Trace> traces;
};

/// Reads a trace or a JSON report, or runs a command that is traced (traced_command.h): `conv2d
/// --dtype float16`. Includes the other processes of the job whose traces are beside the given one
/// (`optrace run --children`). Throws Error(usage) for any other text and if one of these traces is
/// missing, and the exceptions of tracing.
/// `times`: the report of a trace has times.
CommandInput read_input(const std::string& text, bool times = false);

/// Same as read_input, for checking against rules: keeps the frames of each process apart.
CommandInput read_input_to_check(const std::string& text);

/// Reads a trace or a JSON report, as read_input does.
CommandInput read_input_file(const std::string& file, bool times = false);

}  // namespace optrace
