#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "present/terminal_text.h"
#include "report/findings/findings.h"

namespace optrace {

struct ReportTextOptions {
  TerminalStyle style;
  /// Maximum width in columns; paths and names are shortened to fit. 0: only the template arguments
  /// in names are shortened, so that piped output can be searched.
  std::size_t width = 0;
  bool all = false;      ///< The report shows all frames; don't suggest --all.
  bool why = false;      ///< Explain the dispatcher's choices.
  bool tensors = false;  ///< Show which storages the ops' tensors are in.
  bool times = false;    ///< The report has times; suggested commands ask for them too.
  /// The user typed the options in the trace's metadata, so all of them may be suggested again.
  /// From a file of unknown origin, only words that are safe to paste are used.
  bool own_trace = false;
  FindingOptions findings{};  ///< Of the summary and of the page.
  /// The files with the traces that the report is made of, for suggested commands. Empty if there
  /// are none.
  std::vector<std::filesystem::path> trace_files{};
};

}  // namespace optrace
