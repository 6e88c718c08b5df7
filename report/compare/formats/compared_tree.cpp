#include "report/compare/formats/compared_tree.h"

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <unordered_set>
#include <utility>

#include "report/compare/compared_step.h"
#include "report/compare/frame_matcher.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Changed = std::unordered_set<const Frame*>;

/// A frame of the common tree.
struct Node {
  // One of the two is null if only one report has the frame.
  const Frame* first = nullptr;
  const Frame* second = nullptr;
  std::vector<std::size_t> children;  // Numbers of nodes.
};

const Frame& shown(const Node& node) {
  return node.first != nullptr ? *node.first : *node.second;
}

PageSide side_of(const Node& node, const Changed& changed) {
  if (node.first == nullptr) return PageSide::second;
  if (node.second == nullptr) return PageSide::first;
  return changed.contains(node.first) ? PageSide::changed : PageSide::both;
}

/// Makes the common tree of two reports.
class TreeMaker {
 public:
  TreeMaker(const Report& first, const Report& second, const CompareOptions& options)
      : steps_(options.all || is_same_build(first, second)),
        matcher_(keys_, is_same_build(first, second)) {
    nodes_.emplace_back();
    add_below(0, first.roots, second.roots, 1, 1);
    for (std::size_t node = 1; node < nodes_.size(); ++node) {
      const Node& both = nodes_[node];
      if (both.first == nullptr || both.second == nullptr) continue;
      const Frame& of_first = *both.first;
      const Frame& of_second = *both.second;
      add_below(node, of_first.children, of_second.children, of_first.calls, of_second.calls);
    }
  }

  /// Returns all nodes; the first stands for the reports, and the roots are below it.
  std::vector<Node> take() { return std::move(nodes_); }

 private:
  /// The children of a node that come from the second report, by the child of the first that they
  /// follow; MatchedSide::kNone: they come first.
  using Following = std::map<std::uint32_t, std::vector<std::size_t>>;

  std::size_t add(std::vector<std::size_t>& children, const Frame* first, const Frame* second) {
    nodes_.push_back({first, second, {}});
    children.push_back(nodes_.size() - 1);
    return nodes_.size() - 1;
  }

  // Adds a frame that only one report has, with everything below it.
  void add_alone(std::vector<std::size_t>& children, const Frame& frame, bool of_second) {
    const auto add_to = [&](std::vector<std::size_t>& list, const Frame& one) {
      return add(list, of_second ? nullptr : &one, of_second ? &one : nullptr);
    };
    std::vector<std::size_t> top;
    const std::size_t node = add_to(top, frame);
    walk_frames(frame.children, node, [&](const Frame& below, std::size_t above) {
      std::vector<std::size_t> added;
      const std::size_t number = add_to(added, below);
      nodes_[above].children.push_back(number);
      return number;
    });
    children.push_back(node);
  }

  // Adds what is below a frame of each report.
  void add_below(std::size_t node, const std::vector<Frame>& first,
                 const std::vector<Frame>& second, std::uint64_t calls_first,
                 std::uint64_t calls_second) {
    const MatchedFrames found = matcher_.match(first, second, calls_first, calls_second);
    std::vector<std::uint32_t> top(found.first.entries.size(), MatchedSide::kNone);
    std::vector<std::vector<std::size_t>> of_first = add_first(found, top);
    Following following = add_second(found, top);
    std::vector<std::size_t> children = std::move(following[MatchedSide::kNone]);
    for (std::uint32_t i = 0; i < of_first.size(); ++i) {
      std::ranges::move(of_first[i], std::back_inserter(children));
      std::ranges::move(following[i], std::back_inserter(children));
    }
    nodes_[node].children = std::move(children);
  }

  struct Visit {
    std::uint32_t entry;
    std::size_t above;  // The node of the nearest unmatched step above; 0 if there is none.
    std::uint32_t top;  // The outermost entry above.
  };

  static std::vector<Visit> outermost(const MatchedSide& side) {
    std::vector<Visit> pending;
    for (std::uint32_t i = side.direct; i-- > 0;) pending.push_back({i, 0, i});
    return pending;
  }

  static void add_behind(const MatchedSide::Entry& entry, const Visit& visit, std::size_t above,
                         std::vector<Visit>& pending) {
    for (std::uint32_t i = entry.behind; i-- > 0;)
      pending.push_back({entry.first_behind + i, above, visit.top});
  }

  // Adds the frames of the first report: for each of its outermost entries, the nodes that take its
  // place. `top` gets the outermost entry above each matched one.
  std::vector<std::vector<std::size_t>> add_first(const MatchedFrames& found,
                                                  std::vector<std::uint32_t>& top) {
    std::vector<std::vector<std::size_t>> nodes(found.first.direct);
    std::vector<Visit> pending = outermost(found.first);
    while (!pending.empty()) {
      const Visit visit = pending.back();
      pending.pop_back();
      const MatchedSide::Entry& entry = found.first.entries[visit.entry];
      if (entry.dropped) continue;
      std::vector<std::size_t> added;
      std::size_t above = visit.above;
      if (entry.match != MatchedSide::kNone && !entry.shared) {
        top[visit.entry] = visit.top;
        add(added, entry.frame, found.second.entries[entry.match].frame);
      } else if (entry.match != MatchedSide::kNone) {
        add_alone(added, *entry.frame, false);
      } else {
        if (steps_.is_step(*entry.frame)) above = add(added, entry.frame, nullptr);
        add_behind(entry, visit, above, pending);
      }
      std::vector<std::size_t>& list =
          visit.above == 0 ? nodes[visit.top] : nodes_[visit.above].children;
      std::ranges::move(added, std::back_inserter(list));
    }
    return nodes;
  }

  // Adds the frames that only the second report has.
  Following add_second(const MatchedFrames& found, const std::vector<std::uint32_t>& top) {
    Following following;
    std::uint32_t last = MatchedSide::kNone;
    std::vector<Visit> pending = outermost(found.second);
    while (!pending.empty()) {
      const Visit visit = pending.back();
      pending.pop_back();
      const MatchedSide::Entry& entry = found.second.entries[visit.entry];
      if (entry.dropped) continue;
      std::vector<std::size_t> added;
      std::size_t above = visit.above;
      if (entry.match != MatchedSide::kNone && !entry.shared) {
        last = top[entry.match];
        continue;
      }
      if (entry.match != MatchedSide::kNone) {
        add_alone(added, *entry.frame, true);
      } else {
        if (steps_.is_step(*entry.frame)) above = add(added, nullptr, entry.frame);
        add_behind(entry, visit, above, pending);
      }
      std::vector<std::size_t>& list =
          visit.above == 0 ? following[last] : nodes_[visit.above].children;
      std::ranges::move(added, std::back_inserter(list));
    }
    return following;
  }

  StepKeys keys_;
  StepFilter steps_;
  FrameMatcher matcher_;
  std::vector<Node> nodes_;
};

Changed changed_frames(const Comparison& comparison) {
  Changed changed;
  for (const Difference& difference : comparison.differences)
    if (difference.kind == Difference::Kind::changed || difference.kind == Difference::Kind::count)
      changed.insert(difference.frame);
  return changed;
}

}  // namespace

std::vector<PageRow> compared_rows(const Report& first, const Report& second,
                                   const Comparison& comparison, const CompareOptions& options) {
  struct Visit {
    std::size_t node;
    std::size_t above;  // Its parent's row.
  };
  const std::vector<Node> nodes = TreeMaker(first, second, options).take();
  const Changed changed = changed_frames(comparison);
  std::vector<PageRow> rows;
  rows.reserve(nodes.size());
  std::vector<Visit> pending;
  const auto add_children = [&](const Node& node, std::size_t row) {
    for (std::size_t i = node.children.size(); i-- > 0;) pending.push_back({node.children[i], row});
  };
  constexpr auto kRoot = static_cast<std::size_t>(-1);
  add_children(nodes.front(), kRoot);
  while (!pending.empty()) {
    const Visit visit = pending.back();
    pending.pop_back();
    const Node& node = nodes[visit.node];
    const std::size_t row = rows.size();
    const bool is_root = visit.above == kRoot;
    rows.push_back({.frame = &shown(node),
                    .parent = is_root ? nullptr : rows[visit.above].frame,
                    .up = is_root ? 0 : row - visit.above,
                    .side = side_of(node, changed),
                    .second = node.second,
                    .sourced = node.first != nullptr || comparison.same_build});
    add_children(node, row);
  }
  return rows;
}

}  // namespace optrace
