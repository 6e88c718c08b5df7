#pragma once

#include "present/file_links.h"
#include "report/model/report.h"

namespace optrace {

struct TreeBrowserOptions {
  bool colour = true;
  FileLinks::Find find{};  ///< Finds the files that the editor opens.
};

/// Shows a report as a tree in the terminal, until the user quits. Throws Error(usage) as Screen
/// does, and Error(interrupted) after a signal.
void browse_tree(const Report& report, const TreeBrowserOptions& options);

}  // namespace optrace
