#pragma once

#include <string>
#include <vector>

#include "report/model/report.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// What a command is to look at.
struct CommandInput {
  Report report;
  std::vector<Trace> traces;  ///< That it was made of; none for what was a report already.
};

/// A trace, a JSON report, or a command that is traced (traced_command.h): `conv2d --dtype
/// float16`. Throws Error(usage) for what is none of them, and what tracing throws.
CommandInput read_input(const std::string& text);

/// The same to be held against rules: the frames of each process for themselves, and those of the
/// other processes of the job whose traces lie beside the given one (`optrace run --children`).
/// Throws Error(usage) where one of them is missing.
CommandInput read_input_to_check(const std::string& text);

/// A trace or a JSON report.
CommandInput read_input_file(const std::string& file);

}  // namespace optrace
