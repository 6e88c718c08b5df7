#include "report/model/frame_selection.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/process/child_process.h"
#include "platform/text/glob.h"
#include "pytorch/names/name_patterns.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// A line of Python code: `train.py:17`.
struct Place {
  std::string file;
  std::uint32_t line = 0;
};

std::optional<Place> parse_place(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos || colon == 0 || text[colon - 1] == ':') return std::nullopt;
  Place place{.file = text.substr(0, colon)};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, place.line);
  if (error != std::errc() || stop != end) return std::nullopt;
  return place;
}

// Returns true if the file's path is `name` or ends with it.
bool is_file(const FrameSource& source, std::string_view name) {
  const std::string_view file = source.file;
  return file.ends_with(name) &&
         (file.size() == name.size() || file[file.size() - name.size() - 1] == '/');
}

// Returns true for a function that is defined in the line, and for a call from it.
bool is_at(const Frame& frame, const Frame* parent, const Place& place) {
  if (!frame.source) return false;
  const FrameSource& source = *frame.source;
  if (source.line == place.line && is_file(source, place.file)) return true;
  return parent != nullptr && parent->source && source.call_line == place.line &&
         is_file(*parent->source, place.file);
}

bool is_named(const Frame& frame, const std::string& pattern) {
  return (frame.op && names_op(pattern, *frame.op)) || names_function(pattern, frame.name) ||
         matches_glob(frame_name(frame), pattern) || matches_glob(frame.name, "*::" + pattern);
}

// A value of --under.
class Target {
 public:
  explicit Target(const std::string& text) : text_(text), place_(parse_place(text)) {}

  bool matches(const Frame& frame, const Frame* parent) const {
    return (place_ && is_at(frame, parent, *place_)) || is_named(frame, text_);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::optional<Place> place_;
};

bool is_call_of(const Frame& frame, const std::string& pattern) {
  return frame.op && is_op_call(frame) && names_op(pattern, *frame.op);
}

// Sets the total of a frame with a time. The shortest and longest call are those of other frames.
void set_total(Frame& frame, std::uint64_t total) {
  if (frame.time) frame.time = FrameTime{total};
}

// The frames of a report in a list, parents first, with a decision about each.
class Pruner {
 public:
  explicit Pruner(Report& report) : roots_(report.roots) {
    walk_frames(roots_, kNone, [this](Frame& frame, std::size_t parent) {
      nodes_.push_back({.frame = &frame, .parent = parent});
      return nodes_.size() - 1;
    });
  }

  // Keeps the frames that match, those below them down to a depth, and those that lead to them.
  void keep_matching(const FrameSelection& selection) {
    const std::vector<Target> under(selection.under.begin(), selection.under.end());
    std::vector<bool> used(under.size() + selection.ops.size());
    for (Node& node : nodes_) {
      set_ranges(node, under, selection.ops, used);
      const bool above_too = node.parent != kNone && nodes_[node.parent].selected;
      node.level = above_too ? nodes_[node.parent].level + 1 : 1;
      node.selected = (under.empty() || node.is_under) && (selection.ops.empty() || node.in_op);
      node.kept = node.selected && node.level <= selection.depth.value_or(node.level) &&
                  std::max(total_time(*node.frame), own_time(*node.frame)) >= selection.min_time;
    }
    for (std::size_t i = 0; i < used.size(); ++i)
      if (!used[i])
        refuse(i < under.size() ? "--under" : "--ops",
               i < under.size() ? under[i].text() : selection.ops[i - under.size()]);
    remove_others([](const Node& node) { return node.selected; });
  }

  // Keeps the frames with the most time of their own, and those that lead to them.
  void keep_top(std::size_t count) {
    std::vector<std::size_t> order(nodes_.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      order[i] = i;
      nodes_[i].own = own_time(*nodes_[i].frame);
    }
    std::ranges::stable_sort(order, std::greater{},
                             [this](std::size_t i) { return nodes_[i].own; });
    for (std::size_t i = 0; i < order.size(); ++i) {
      Node& node = nodes_[order[i]];
      node.kept = i < count && node.own != 0;
      if (!node.kept) node.own = 0;
    }
    remove_others([](const Node&) { return false; });
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Node {
    Frame* frame;
    std::size_t parent;
    std::size_t level = 0;  // From the outermost selected frame, 1.
    bool is_under = false;  // A match of --under, or below one.
    bool in_op = false;     // A match of --ops, or below one.
    bool selected = false;  // Matches, or is below a match.
    bool kept = false;
    std::uint64_t own = 0;         // Nanoseconds that count as the frame's own.
    std::uint64_t kept_below = 0;  // Nanoseconds in the children that are kept.
  };

  void set_ranges(Node& node, const std::vector<Target>& under, const std::vector<std::string>& ops,
                  std::vector<bool>& used) {
    const Node* const parent = node.parent == kNone ? nullptr : &nodes_[node.parent];
    node.is_under = parent != nullptr && parent->is_under;
    node.in_op = parent != nullptr && parent->in_op;
    for (std::size_t i = 0; i < under.size(); ++i)
      if (under[i].matches(*node.frame, parent == nullptr ? nullptr : parent->frame))
        used[i] = node.is_under = true;
    for (std::size_t i = 0; i < ops.size(); ++i)
      if (is_call_of(*node.frame, ops[i])) used[under.size() + i] = node.in_op = true;
  }

  [[noreturn]] static void refuse(std::string_view option, const std::string& value) {
    throw Error(ExitStatus::usage,
                fmt::format("nothing in the trace matches {} '{}'", option, value),
                option == "--ops"
                    ? "Give the name of an op that ran, such as 'aten::add'; * matches any "
                      "characters. --format csv lists the ops."
                    : "Give an op (aten::add), a function (Net.forward) or a line (train.py:17); * "
                      "matches any characters.");
  }

  // Removes frames that are not kept and lead to none that is. Where keeps_total(node) is false,
  // the frame's time becomes its own and that of the kept frames below it.
  void remove_others(const std::function<bool(const Node&)>& keeps_total) {
    std::vector<std::vector<bool>> kept_children(nodes_.size());
    std::vector<bool> kept_roots;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      std::vector<bool>& kept = kept_children[i];
      std::reverse(kept.begin(), kept.end());
      keep_only(node.frame->children, kept);
      node.kept = node.kept || !node.frame->children.empty();
      if (!keeps_total(node)) set_total(*node.frame, node.own + node.kept_below);
      (node.parent == kNone ? kept_roots : kept_children[node.parent]).push_back(node.kept);
      if (node.kept && node.parent != kNone && !is_backward(*node.frame))
        nodes_[node.parent].kept_below += total_time(*node.frame);
    }
    std::reverse(kept_roots.begin(), kept_roots.end());
    keep_only(roots_, kept_roots);
  }

  static void keep_only(std::vector<Frame>& frames, const std::vector<bool>& kept) {
    std::size_t at = 0;
    std::erase_if(frames, [&](const Frame&) { return !kept[at++]; });
  }

  std::vector<Frame>& roots_;
  std::vector<Node> nodes_;
};

}  // namespace

std::string FrameSelection::options() const {
  std::string text;
  for (const std::string& one : under) text += " --under " + shell_word(one);
  for (const std::string& one : ops) text += " --ops " + shell_word(one);
  if (depth) text += fmt::format(" --depth {}", *depth);
  if (min_time != 0) text += fmt::format(" --min-time {}ns", min_time);
  if (top) text += fmt::format(" --top {}", *top);
  return text.empty() ? text : text.substr(1);
}

void select_frames(Report& report, const FrameSelection& selection) {
  const std::string options = selection.options();
  if (options.empty()) return;
  Pruner(report).keep_matching(selection);
  if (selection.top) Pruner(report).keep_top(*selection.top);
  report.recording.shown = options;
  report.python_calls.reset();
}

}  // namespace optrace
