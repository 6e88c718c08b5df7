#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/lines/text_options.h"
#include "report/model/report.h"

namespace optrace {

/// A command that shows more of the traced call.
struct SuggestedCommand {
  std::string command;
  std::string purpose;
};

/// Returns variants of the command that recorded the report. None if the report is not of an op, or
/// if its options must not be suggested (ReportTextOptions::own_trace).
std::vector<SuggestedCommand> suggested_commands(const Report& report,
                                                 const ReportTextOptions& options);

/// Returns commands that show more of a program's traces. `op` is the op to look at first; it may
/// be empty. None if the traces have no files.
std::vector<SuggestedCommand> commands_for_traces(const ReportTextOptions& options,
                                                  const std::string& op);

/// Returns a line for each command.
std::string suggestion_lines(std::span<const SuggestedCommand> commands,
                             const TerminalStyle& style);

}  // namespace optrace
