#include "src/tree_browser/tree_model.h"

#include <algorithm>
#include <iterator>

#include "report/model/op_call.h"
#include "report/model/user_code.h"

namespace optrace {
namespace {

constexpr std::size_t kFirstRows = 100;  // Levels are open at first until there are that many rows.

}  // namespace

TreeModel::TreeModel(const Report& report) : frames_(report), open_(frames_.size()) {
  filter();
  rebuild(0);
  open_first_levels();
}

void TreeModel::open_first_levels() {
  std::vector<FrameNumber> level = calls_of(0, frames_.size());
  std::size_t count = level.size();
  while (!level.empty()) {
    std::vector<FrameNumber> next;
    for (const FrameNumber frame : level)
      std::ranges::copy(calls_of(frame), std::back_inserter(next));
    count += next.size();
    if (count > kFirstRows) break;
    for (const FrameNumber frame : level) open_[frame] = true;
    level = std::move(next);
  }
  rebuild(0);
}

void TreeModel::select(std::size_t row) {
  selected_ = rows_.empty() ? 0 : std::min(row, rows_.size() - 1);
}

FrameNumber TreeModel::selected_frame() const {
  return rows_.empty() ? kNoFrame : rows_[selected_].frame;
}

// Returns the shown frames among those at the places, and in place of each hidden one those that it
// calls.
std::vector<FrameNumber> TreeModel::calls_of(std::size_t first, std::size_t end) const {
  std::vector<FrameNumber> calls;
  for (std::size_t place = first; place < end;) {
    const FrameNumber frame = frames_.at(place);
    if (shown_[frame]) calls.push_back(frame);
    place += shown_[frame] || !shows_below_[frame] ? frames_.frames_in(frame) : 1;
  }
  return calls;
}

std::vector<FrameNumber> TreeModel::calls_of(FrameNumber frame) const {
  const std::size_t place = frames_.place_of(frame);
  return calls_of(place + 1, place + frames_.frames_in(frame));
}

// Adds the rows below an open frame.
void TreeModel::add_rows(std::vector<TreeRow>& rows, const TreeRow& above) const {
  std::vector<TreeRow> pending{above};
  for (bool first = true; !pending.empty(); first = false) {
    const TreeRow row = pending.back();
    pending.pop_back();
    if (!first) rows.push_back(row);
    if (!open_[row.frame] || !shows_below_[row.frame]) continue;
    const std::vector<FrameNumber> calls = calls_of(row.frame);
    const std::uint32_t own_line =
        row.joint == TreeRow::Joint::middle ? 1U << (row.indent - 1U) : 0U;
    const bool indents = calls.size() > 1 && row.indent < kMaxIndent;
    for (std::size_t i = calls.size(); i-- > 0;) {
      TreeRow call{.frame = calls[i], .indent = row.indent, .lines = row.lines | own_line};
      if (indents) {
        ++call.indent;
        call.joint = i + 1 == calls.size() ? TreeRow::Joint::last : TreeRow::Joint::middle;
      }
      pending.push_back(call);
    }
  }
}

void TreeModel::rebuild(FrameNumber selected) {
  rows_.clear();
  for (const FrameNumber root : calls_of(0, frames_.size())) {
    rows_.push_back({.frame = root});
    add_rows(rows_, TreeRow(rows_.back()));
  }
  selected_ = selected == kNoFrame || rows_.empty() ? 0 : row_of(selected);
}

// Returns the row of a frame; if it has none, that of the frame that it is hidden in.
std::size_t TreeModel::row_of(FrameNumber frame) const {
  const auto after =
      std::ranges::upper_bound(rows_, frames_.place_of(frame), {},
                               [this](const TreeRow& row) { return frames_.place_of(row.frame); });
  return after == rows_.begin() ? 0 : static_cast<std::size_t>(after - rows_.begin()) - 1;
}

// Returns the first row that is not below a row.
std::size_t TreeModel::end_of(std::size_t row) const {
  const FrameNumber frame = rows_[row].frame;
  const std::size_t end = frames_.place_of(frame) + frames_.frames_in(frame);
  const auto after = std::ranges::lower_bound(
      rows_, end, {}, [this](const TreeRow& other) { return frames_.place_of(other.frame); });
  return static_cast<std::size_t>(after - rows_.begin());
}

void TreeModel::open_row(std::size_t row) {
  std::vector<TreeRow> added;
  add_rows(added, rows_[row]);
  const auto after = rows_.begin() + static_cast<std::ptrdiff_t>(row + 1);
  rows_.erase(after, rows_.begin() + static_cast<std::ptrdiff_t>(end_of(row)));
  rows_.insert(rows_.begin() + static_cast<std::ptrdiff_t>(row + 1), added.begin(), added.end());
}

void TreeModel::unfold() {
  if (rows_.empty()) return;
  for (FrameNumber frame = selected_frame(); shows_below_[frame];) {
    open_[frame] = true;
    const std::vector<FrameNumber> calls = calls_of(frame);
    if (calls.size() != 1) break;
    frame = calls.front();
  }
  open_row(selected_);
}

void TreeModel::fold() {
  if (rows_.empty()) return;
  open_[selected_frame()] = false;
  open_row(selected_);
}

void TreeModel::set_all_below(bool open) {
  if (rows_.empty()) return;
  const std::size_t place = frames_.place_of(selected_frame());
  for (std::size_t i = place; i < place + frames_.frames_in(selected_frame()); ++i)
    open_[frames_.at(i)] = open;
  open_row(selected_);
}

void TreeModel::select_caller() {
  if (rows_.empty()) return;
  FrameNumber caller = frames_.above(selected_frame());
  while (caller != kNoFrame && !shown_[caller]) caller = frames_.above(caller);
  if (caller != kNoFrame) selected_ = row_of(caller);
}

void TreeModel::show(Layer layer, bool shown) {
  hidden_layers_[static_cast<std::size_t>(layer)] = !shown;
  filter();
  rebuild(selected_frame());
}

void TreeModel::show_all_layers() {
  hidden_layers_.reset();
  filter();
  rebuild(selected_frame());
}

void TreeModel::set_user_code_only(bool only) {
  user_code_only_ = only;
  filter();
  rebuild(selected_frame());
}

void TreeModel::set_order(ChildOrder order) {
  const FrameNumber selected = selected_frame();
  frames_.set_order(order);
  rebuild(selected);
}

bool TreeModel::passes(FrameNumber number, bool below_user_op) const {
  const Frame& frame = frames_.frame(number);
  if (!shows(frame.layer)) return false;
  if (!user_code_only_) return true;
  return frame.layer == Layer::python ? is_program_code(frame)
                                      : !below_user_op && is_op_call(frame);
}

void TreeModel::filter() {
  shown_.assign(frames_.size(), false);
  shows_below_.assign(frames_.size(), false);
  std::vector<bool> below_op(user_code_only_ ? frames_.size() : 0);  // In or below an op's call.
  for (FrameNumber i = 0; i < frames_.size(); ++i) {
    const FrameNumber above = frames_.above(i);
    const bool in_op = user_code_only_ && above != kNoFrame && below_op[above];
    shown_[i] = passes(i, in_op);
    // An op may call Python code of the program, which calls ops again.
    if (user_code_only_)
      below_op[i] =
          frames_.frame(i).layer == Layer::python ? in_op && !shown_[i] : in_op || shown_[i];
  }
  for (std::size_t i = frames_.size(); i-- > 0;) {
    const FrameNumber above = frames_.above(static_cast<FrameNumber>(i));
    if (above != kNoFrame && (shown_[i] || shows_below_[i])) shows_below_[above] = true;
  }
}

void TreeModel::reveal(FrameNumber frame) {
  FrameNumber outermost = kNoFrame;
  for (FrameNumber above = frames_.above(frame); above != kNoFrame; above = frames_.above(above)) {
    if (shown_[above] && !open_[above]) outermost = above;
    open_[above] = true;
  }
  if (outermost != kNoFrame) open_row(row_of(outermost));
  selected_ = row_of(frame);
}

bool TreeModel::find(const FrameSearch& search, bool forwards) {
  if (rows_.empty()) return false;
  enum class Known : std::uint8_t { no, yes, unknown };
  std::vector<Known> known(frames_.names(), Known::unknown);
  const auto matches = [&](FrameNumber frame) {
    Known& one = known[frames_.name(frame)];
    if (one == Known::unknown)
      one = search.matches(frames_.text(frames_.name(frame))) ? Known::yes : Known::no;
    return one == Known::yes;
  };
  const std::size_t count = frames_.size();
  const std::size_t start = frames_.place_of(selected_frame());
  for (std::size_t step = 1; step <= count; ++step) {
    const FrameNumber frame = frames_.at((start + (forwards ? step : count - step)) % count);
    if (!shown_[frame] || !matches(frame)) continue;
    reveal(frame);
    return true;
  }
  return false;
}

}  // namespace optrace
