#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "present/progress_display.h"
#include "tracer/attach/attach.h"

namespace optrace {

/// A table of the ops that a process has called so far, redrawn in place on the terminal of
/// standard error. Does nothing if standard error is not a terminal.
class LiveTable {
 public:
  void show(const AttachProgress& progress);

  /// Shows what is done before the trace begins.
  void show_step(std::string_view step) { display_.show_step(step); }

 private:
  ProgressDisplay display_;
};

/// Returns the table's lines: the totals, then the ops with the most calls, as many as fit.
std::vector<std::string> table_lines(const AttachProgress& progress, std::size_t height,
                                     std::size_t width);

}  // namespace optrace
