#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// The part of a report to show. A field without a value does not restrict it.
struct FrameSelection {
  /// Frames that match one of these, and what is below them: an op (`aten::conv2d`, `conv*`), a
  /// function (`Block.forward`), or a line of Python code whose calls are meant (`train.py:17`).
  std::vector<std::string> under{};
  std::vector<std::string> ops{};      ///< Calls of ops that match, and what is below them.
  std::optional<std::size_t> depth{};  ///< The number of levels, from the selected frames or roots.
  std::uint64_t min_time = 0;          ///< Nanoseconds in a frame and those below it.
  std::optional<std::size_t> top{};    ///< The number of frames with the most time of their own.

  /// Returns true if the report must have times (MergeOptions::times).
  bool needs_times() const { return min_time != 0 || top.has_value(); }
  /// Returns the command's options for this selection; empty without a restriction.
  std::string options() const;
};

/// Removes the other frames from a report, except those that lead to the selected ones. Their time
/// is then that of the selected frames below them, so that tables and graphs count nothing else.
/// Throws Error(usage) if `under` or `ops` matches nothing.
void select_frames(Report& report, const FrameSelection& selection);

}  // namespace optrace
