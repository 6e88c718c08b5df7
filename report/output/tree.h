#pragma once

#include <cstddef>
#include <string>

#include "report/model/report.h"
#include "report/output/terminal_text.h"

namespace optrace {

struct TreeOptions {
  TerminalStyle style;
  /// Columns to keep within, where paths and names can be shortened. 0: nothing but the names of
  /// templates is shortened, so that what is piped can be searched.
  std::size_t width = 0;
  bool all = false;    ///< The report has everything in it; don't recommend to ask for it.
  bool why = false;    ///< Say why the dispatcher chose what it chose.
  bool times = false;  ///< The report has them; what is recommended has them too.
  /// The user typed what the trace says of its options, so all of it may be recommended again. A
  /// file may say what it likes: of that, only what is harmless to paste.
  bool own_trace = false;
};

/// The report as a tree for people: what was traced, the frames, a summary, and what to try next.
std::string to_tree(const Report& report, const TreeOptions& options);

}  // namespace optrace
