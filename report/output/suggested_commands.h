#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/model/report.h"
#include "report/output/report_text.h"

namespace optrace {

/// A command that shows more of the traced call.
struct SuggestedCommand {
  std::string command;
  std::string_view purpose;
};

/// Returns variants of the command that recorded the report. None if the report is not of an op, or
/// if its options must not be suggested (ReportTextOptions::own_trace).
std::vector<SuggestedCommand> suggested_commands(const Report& report,
                                                 const ReportTextOptions& options);

}  // namespace optrace
