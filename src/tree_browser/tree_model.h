#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/model/report.h"
#include "src/tree_browser/frame_list.h"
#include "src/tree_browser/frame_search.h"

namespace optrace {

/// A visible frame with its place in the tree's drawing. As in the text report, only the frames
/// that a frame with several calls calls are indented.
struct TreeRow {
  enum class Joint : std::uint8_t { none, middle, last };  ///< Of a call among several.

  FrameNumber frame = 0;
  std::uint8_t indent = 0;    ///< In levels.
  Joint joint = Joint::none;  ///< Drawn at the innermost level.
  std::uint32_t lines = 0;    ///< Bit N: a line goes down through level N.
};

/// The rows of a tree that can be folded, filtered and searched. Knows nothing of a terminal.
class TreeModel {
 public:
  static constexpr std::size_t kMaxIndent = 20;

  /// The report must outlive the object.
  explicit TreeModel(const Report& report);

  const FrameList& frames() const { return frames_; }
  const std::vector<TreeRow>& rows() const { return rows_; }

  /// The row of the cursor; 0 if there is no row.
  std::size_t selected() const { return selected_; }
  void select(std::size_t row);
  /// Returns the selected frame; kNoFrame if there is no row.
  FrameNumber selected_frame() const;

  bool can_unfold(FrameNumber frame) const { return shows_below_[frame]; }
  bool is_open(FrameNumber frame) const { return open_[frame]; }

  /// Shows the calls of the selected frame, on to the first one that makes several.
  void unfold();
  /// Hides the frames below the selected one.
  void fold();
  /// Shows or hides everything below the selected frame.
  void set_all_below(bool open);
  /// Selects the frame that calls the selected one.
  void select_caller();

  bool shows(Layer layer) const { return !hidden_layers_[static_cast<std::size_t>(layer)]; }
  void show(Layer layer, bool shown);
  void show_all_layers();
  /// Shows only Python code of the program itself, and the ops that it calls.
  void set_user_code_only(bool only);
  bool user_code_only() const { return user_code_only_; }

  void set_order(ChildOrder order);

  /// Selects the next or previous shown frame that matches, also below a folded one, and around the
  /// end. Returns false if there is none.
  bool find(const FrameSearch& search, bool forwards);

 private:
  void open_first_levels();
  void filter();
  bool passes(FrameNumber frame, bool below_user_op) const;
  void rebuild(FrameNumber selected);
  std::vector<FrameNumber> calls_of(std::size_t first, std::size_t end) const;
  std::vector<FrameNumber> calls_of(FrameNumber frame) const;
  void add_rows(std::vector<TreeRow>& rows, const TreeRow& above) const;
  std::size_t end_of(std::size_t row) const;
  std::size_t row_of(FrameNumber frame) const;
  void open_row(std::size_t row);
  void reveal(FrameNumber frame);

  FrameList frames_;
  std::vector<bool> open_;
  std::vector<bool> shown_;        // Passes the filters.
  std::vector<bool> shows_below_;  // A frame below it is shown.
  std::vector<TreeRow> rows_;      // In the order of FrameList.
  std::size_t selected_ = 0;
  std::bitset<kLayers> hidden_layers_;
  bool user_code_only_ = false;
};

}  // namespace optrace
