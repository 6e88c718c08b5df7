#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "tracer/attach/attach.h"

namespace optrace {

/// The ops that a process has called so far, on the terminal of standard error, drawn over itself.
/// Nothing happens where that is no terminal.
class LiveTable {
 public:
  LiveTable();
  /// Wipes it.
  ~LiveTable();
  LiveTable(const LiveTable&) = delete;
  LiveTable& operator=(const LiveTable&) = delete;

  void show(const AttachProgress& progress);

 private:
  void wipe();

  bool visible_;
  std::size_t lines_ = 0;  ///< Drawn last.
};

/// The table's lines: what was counted, then the ops that were called most, as many as fit.
std::vector<std::string> table_lines(const AttachProgress& progress, std::size_t height,
                                     std::size_t width);

}  // namespace optrace
