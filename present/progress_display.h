#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// Lines on the terminal of standard error that are redrawn in place, and erased at the end. Shows
/// nothing if standard error is not a terminal. Everything that optrace redraws goes through this
/// class. Lines must be harmless (platform/text/printable_text.h).
class ProgressDisplay {
 public:
  ProgressDisplay();
  /// Erases what is shown.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  bool is_terminal() const { return terminal_; }

  /// Shows a step of the work, made printable. Erases the line if `step` is empty.
  void show_step(std::string_view step);

  /// Shows one line, with the cursor at its end.
  void show(std::string_view line);

  /// Same with the cursor at the start of the line, for a program that may also write to the
  /// terminal: its next output overwrites the line.
  void show_below_output(std::string_view line);

  /// Shows several lines, with the cursor below them. They must fit into the terminal.
  void show(const std::vector<std::string>& lines);

  void erase();

 private:
  bool terminal_;
  bool line_shown_ = false;      ///< The line that the cursor is in.
  std::size_t lines_above_ = 0;  ///< Number of lines shown above the cursor.
};

}  // namespace optrace
