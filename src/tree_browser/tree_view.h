#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "report/model/report.h"
#include "src/tree_browser/frame_search.h"
#include "src/tree_browser/screen.h"
#include "src/tree_browser/tree_model.h"

namespace optrace {

/// Text being typed in the last row.
struct Prompt {
  std::string label;
  std::string text;
};

/// Draws a tree: a title, the rows, a panel with the details of the selected one, and a last row
/// with hints or, over as many rows as it takes, a message.
class TreeView {
 public:
  /// The smallest screen that the tree fits into.
  static constexpr std::size_t kMinWidth = 24;
  static constexpr std::size_t kMinHeight = 5;

  /// All must outlive the object.
  TreeView(const Report& report, const TreeModel& model, Screen& screen);

  void draw(const std::string& message, const FrameSearch* search, const Prompt* prompt);
  void toggle_panel() { shows_panel_ = !shows_panel_; }
  /// Returns the number of rows of the tree that are on the screen.
  std::size_t page() const;

 private:
  void draw_title();
  void draw_row(std::size_t screen_row, std::size_t row, const FrameSearch* search);
  void draw_branch(std::size_t screen_row, const TreeRow& row, std::size_t& column,
                   const TextLook& look);
  void draw_panel();
  void draw_last_row(const std::string& message);
  void draw_too_small();
  std::size_t panel_rows() const;
  std::string title() const;
  std::string counts() const;

  const Report& report_;
  const TreeModel& model_;
  Screen& screen_;
  std::size_t top_ = 0;  // The first row on the screen.
  bool shows_panel_ = true;
};

inline constexpr std::size_t kDetailColumns = 15;  ///< Of the labels in detail_lines().

/// Returns what is known about the selected frame, a line for each fact.
std::vector<std::string> detail_lines(const Report& report, const TreeModel& model);

}  // namespace optrace
