#include "src/tree_browser/tree_view.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "present/terminal_text.h"
#include "report/lines/frame_line.h"
#include "report/lines/line_layout.h"
#include "src/tree_browser/frame_details.h"
#include "src/tree_browser/text_page.h"

namespace optrace {
namespace {

constexpr TextLook kPlainLook{};
constexpr TextLook kDimLook{.dim = true};
constexpr TextLook kBoldLook{.bold = true};

constexpr std::size_t kPanelRows = 9;        // With the line above it.
constexpr std::size_t kHeightForPanel = 18;  // Of the screen.
constexpr std::size_t kWidthForLayers = 60;
constexpr std::size_t kWidthForPlaces = 120;
constexpr std::size_t kMaxTimes = 32;   // Columns.
constexpr std::size_t kMaxMessage = 4;  // Rows; the smallest screen has one more.

constexpr std::string_view kHints =
    "? help  / search  1-9 layers  o own code  t by time  e editor  q quit";

/// Cuts the range of times off, for which a row has no room: `×3  1.2 ms`.
std::string short_times(const std::string& times) {
  return times.substr(0, times.find(" ("));
}

}  // namespace

TreeView::TreeView(const Report& report, const TreeModel& model, Screen& screen)
    : report_(report), model_(model), screen_(screen) {}

std::size_t TreeView::panel_rows() const {
  return shows_panel_ && screen_.height() >= kHeightForPanel ? kPanelRows : 0;
}

std::size_t TreeView::page() const {
  const std::size_t others = 2 + panel_rows();
  return screen_.height() > others ? screen_.height() - others : 1;
}

void TreeView::draw(const std::string& message, const FrameSearch* search, const Prompt* prompt) {
  screen_.clear();
  if (screen_.height() < kMinHeight || screen_.width() < kMinWidth) {
    draw_too_small();
    return;
  }
  const std::size_t selected = model_.selected();
  if (selected < top_) top_ = selected;
  if (selected >= top_ + page()) top_ = selected - page() + 1;
  const std::size_t all = model_.rows().size();
  top_ = std::min(top_, all > page() ? all - page() : 0);
  draw_title();
  for (std::size_t i = 0; i < page() && top_ + i < all; ++i) draw_row(1 + i, top_ + i, search);
  if (all == 0)
    screen_.put(1, 0,
                model_.frames().size() == 0 ? "The report has no frames; with --all, it may."
                                            : "No frame is shown: 0 shows all layers.",
                screen_.width(), kPlainLook);
  draw_panel();
  const std::size_t last = screen_.height() - 1;
  if (prompt == nullptr) {
    draw_last_row(message);
    screen_.show();
    return;
  }
  const std::size_t label = screen_.put(last, 0, prompt->label, screen_.width(), kBoldLook);
  const std::size_t text =
      screen_.put(last, label, prompt->text, screen_.width() - label, kPlainLook);
  screen_.show(last, label + text);
}

void TreeView::draw_too_small() {
  screen_.put(0, 0, "too small", screen_.width(), kPlainLook);
  screen_.put(1, 0, fmt::format("needs {} x {}", kMinWidth, kMinHeight), screen_.width(),
              kPlainLook);
  screen_.show();
}

std::string TreeView::title() const {
  const std::string call = report_.recording.call;
  std::string title = call.empty() ? "optrace" : printable(call);
  if (const std::string& torch = report_.torch.version; !torch.empty())
    title += "  torch " + printable(torch);
  return title;
}

std::string TreeView::counts() const {
  std::string hidden;
  for (std::size_t i = 0; i < kLayers; ++i)
    if (const auto layer = static_cast<Layer>(i); !model_.shows(layer))
      hidden += fmt::format("{}{}", hidden.empty() ? "without " : ",", name_of(layer));
  std::string counts = model_.user_code_only() ? "own code  " : "";
  if (model_.frames().order() == ChildOrder::time) counts += "by time  ";
  if (!hidden.empty()) counts += hidden + "  ";
  return counts + fmt::format("{}/{}",
                              readable_count(model_.rows().empty() ? 0 : model_.selected() + 1),
                              readable_count(model_.rows().size()));
}

void TreeView::draw_title() {
  const std::size_t width = screen_.width();
  const std::string right = counts();
  const std::size_t taken = std::min(width, columns(right) + 1);
  screen_.put(0, 0, std::string(width, ' '), width, kTitleLook);
  screen_.put(0, 0, title(), width - taken, kTitleLook);
  screen_.put(0, width - taken, " " + right, taken, kTitleLook);
}

void TreeView::draw_branch(std::size_t screen_row, const TreeRow& row, std::size_t& column,
                           const TextLook& look) {
  // Deep levels are left out on a narrow screen.
  const std::size_t most = screen_.width() / 8;
  const std::size_t first = row.indent > most ? row.indent - most : 0;
  for (std::size_t level = first; level < row.indent; ++level) {
    const bool innermost = level + 1U == row.indent;
    const bool line = ((row.lines >> level) & 1U) != 0;
    std::string_view text = line ? "│ " : "  ";
    if (innermost && row.joint == TreeRow::Joint::middle) text = "├─";
    if (innermost && row.joint == TreeRow::Joint::last) text = "└─";
    column += screen_.put(screen_row, column, text, 2, look);
  }
}

void TreeView::draw_row(std::size_t screen_row, std::size_t number, const FrameSearch* search) {
  const TreeRow& row = model_.rows()[number];
  const FrameList& frames = model_.frames();
  const FrameNumber above = frames.above(row.frame);
  const Frame* const parent = above == kNoFrame ? nullptr : &frames.frame(above);
  const FrameLine line = frame_line(frames.frame(row.frame), parent, report_, false);
  const bool selected = number == model_.selected();
  const std::size_t width = screen_.width();
  TextLook look = TextLook::of_sgr(layer_colour(line.layer));
  look.reverse = selected;
  TextLook dim = kDimLook;
  dim.reverse = selected;
  TextLook bold = kBoldLook;
  bold.reverse = selected;
  if (selected) screen_.put(screen_row, 0, std::string(width, ' '), width, look);

  std::size_t end = width;
  if (const std::string times = short_times(line.times); !times.empty()) {
    const std::size_t room = std::min({columns(times), kMaxTimes, width / 3});
    end = width - room;
    screen_.put(screen_row, end, times, room, bold);
    end -= 1;
  }
  std::size_t column = 0;
  if (width >= kWidthForLayers) {
    screen_.put(screen_row, 0, name_of(line.layer), kLabelColumns - 1, look);
    column = kLabelColumns - 1;
  }
  draw_branch(screen_row, row, column, dim);
  const bool can_unfold = model_.can_unfold(row.frame);
  column += screen_.put(screen_row, column,
                        !can_unfold                 ? "  "
                        : model_.is_open(row.frame) ? "▾ "
                                                    : "▸ ",
                        2, dim);
  if (column >= end) return;
  TextLook name = look;
  name.underline = search != nullptr && search->matches(frames.text(frames.name(row.frame)));
  column += screen_.put(screen_row, column, line.name, end - column, name);
  if (!line.note.empty() && column + 4 < end)
    column += screen_.put(screen_row, column, "  " + line.note, end - column, dim);
  const std::size_t place = width / 2;
  if (width < kWidthForPlaces || line.location.empty() || column + 4 >= end) return;
  const std::size_t start = std::max(place, column + 2);
  screen_.put(screen_row, start, line.location, end > start ? end - start : 0, dim);
}

void TreeView::draw_panel() {
  const std::size_t rows = panel_rows();
  if (rows == 0 || model_.rows().empty()) return;
  std::size_t at = screen_.height() - 1 - rows;
  std::string rule;
  for (std::size_t i = 0; i < screen_.width(); ++i) rule += "─";
  screen_.put(at, 0, rule, screen_.width(), kDimLook);
  const std::vector<std::string> lines = detail_lines(report_, model_);
  for (std::size_t i = 0; i + 1 < rows && i < lines.size(); ++i)
    screen_.put(++at, 0, lines[i], screen_.width(), kPlainLook);
}

void TreeView::draw_last_row(const std::string& message) {
  const std::size_t height = screen_.height(), width = screen_.width();
  if (message.empty()) {
    screen_.put(height - 1, 0, kHints, width, kDimLook);
    return;
  }
  const std::vector<std::string> rows = wrapped_line(message, width);
  const std::size_t shown = std::min(rows.size(), kMaxMessage);
  for (std::size_t i = 0; i < shown; ++i) {
    const std::size_t row = height - shown + i;
    screen_.put(row, 0, std::string(width, ' '), width, kPlainLook);
    screen_.put(row, 0, rows[i], width, kBoldLook);
  }
}

std::vector<std::string> detail_lines(const Report& report, const TreeModel& model) {
  const FrameNumber number = model.selected_frame();
  if (number == kNoFrame) return {};
  const FrameList& frames = model.frames();
  const FrameNumber above = frames.above(number);
  std::vector<std::string> lines;
  const auto add = [&lines](const std::string& label, const std::string& value) {
    lines.push_back(padded(label, kDetailColumns) + value);
  };
  const std::optional<FilePlace> program = frames.program_line(number);
  for (const FrameFact& fact : frame_details(
           frames.frame(number), above == kNoFrame ? nullptr : &frames.frame(above), report)) {
    if (fact.label == "calls" && program)
      add("program", fmt::format("{}:{}", printable(program->file), program->line));
    add(fact.label, fact.value);
  }
  return lines;
}

}  // namespace optrace
