#include "report/compare/frame_matcher.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/core.h>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Names that are ambiguous without their class.
constexpr auto kBareNames =
    std::to_array<std::string_view>({"impl", "apply", "operator()", "forward", "call"});

void mark_match_behind(MatchedSide& side, std::uint32_t entry) {
  for (std::uint32_t above = side.entries[entry].parent;
       above != MatchedSide::kNone && !side.entries[above].matches_behind;
       above = side.entries[above].parent)
    side.entries[above].matches_behind = true;
}

void drop_behind(MatchedSide& side, std::uint32_t entry) {
  std::vector<std::uint32_t> pending{entry};
  while (!pending.empty()) {
    const MatchedSide::Entry& above = side.entries[pending.back()];
    pending.pop_back();
    for (std::uint32_t i = 0; i < above.behind; ++i) {
      if (side.entries[above.first_behind + i].dropped) continue;
      side.entries[above.first_behind + i].dropped = true;
      pending.push_back(above.first_behind + i);
    }
  }
}

void pair(MatchedSide& a, std::uint32_t of_a, MatchedSide& b, std::uint32_t of_b) {
  a.entries[of_a].match = of_b;
  b.entries[of_b].match = of_a;
  mark_match_behind(a, of_a);
  mark_match_behind(b, of_b);
  drop_behind(a, of_a);
  drop_behind(b, of_b);
}

void keep_open(const MatchedSide& side, std::vector<std::uint32_t>& open) {
  std::erase_if(
      open, [&](std::uint32_t entry) { return side.entries[entry].match != MatchedSide::kNone; });
}

/// Pairs entries with equal results of `name_of`, in their order.
template <typename NameOf>
void pair_by(MatchedSide& a, std::vector<std::uint32_t>& open_a, MatchedSide& b,
             std::vector<std::uint32_t>& open_b, NameOf name_of) {
  if (open_a.empty() || open_b.empty()) return;
  std::unordered_map<std::string, std::deque<std::uint32_t>> waiting;
  for (const std::uint32_t entry : open_b)
    waiting[name_of(*b.entries[entry].frame, b.entries[entry].key)].push_back(entry);
  for (const std::uint32_t entry : open_a) {
    const auto alike = waiting.find(name_of(*a.entries[entry].frame, a.entries[entry].key));
    if (alike == waiting.end() || alike->second.empty()) continue;
    pair(a, entry, b, alike->second.front());
    alike->second.pop_front();
  }
  keep_open(a, open_a);
  keep_open(b, open_b);
}

/// Pairs the entries of each group that `group_of` makes, if both sides have the same number of
/// them, and no more than `most`. An empty string means no group.
template <typename GroupOf>
void pair_groups(MatchedSide& a, std::vector<std::uint32_t>& open_a, MatchedSide& b,
                 std::vector<std::uint32_t>& open_b, std::size_t most, GroupOf group_of) {
  if (open_a.empty() || open_b.empty()) return;
  std::unordered_map<std::string, std::array<std::vector<std::uint32_t>, 2>> groups;
  for (const std::uint32_t entry : open_a) {
    const std::string group = group_of(*a.entries[entry].frame);
    groups[group][0].push_back(entry);
  }
  for (const std::uint32_t entry : open_b) {
    const std::string group = group_of(*b.entries[entry].frame);
    groups[group][1].push_back(entry);
  }
  for (const auto& [group, members] : groups) {
    if (group.empty() || members[0].size() != members[1].size() || members[0].size() > most)
      continue;
    for (std::size_t i = 0; i < members[0].size(); ++i) pair(a, members[0][i], b, members[1][i]);
  }
  keep_open(a, open_a);
  keep_open(b, open_b);
}

/// Pairs functions that kept their name and moved to another namespace, class or module.
void pair_moved(MatchedSide& a, std::vector<std::uint32_t>& open_a, MatchedSide& b,
                std::vector<std::uint32_t>& open_b) {
  pair_groups(a, open_a, b, open_b, 1, [](const Frame& frame) -> std::string {
    const std::string name = short_name(frame.name);
    const std::string_view part = last_part(name);
    if (is_dispatched(frame) || std::ranges::find(kBareNames, part) != kBareNames.end()) return {};
    return fmt::format("{} {}", static_cast<int>(frame.layer), part);
  });
}

/// Pairs the kernels of an op, and the device kernels that a call launched, if they are different
/// functions: one has replaced the other.
void pair_renamed(MatchedSide& a, std::vector<std::uint32_t>& open_a, MatchedSide& b,
                  std::vector<std::uint32_t>& open_b) {
  constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();
  pair_groups(a, open_a, b, open_b, kAnyNumber, [](const Frame& frame) -> std::string {
    if (frame.layer == Layer::device) return "device";
    if (frame.layer == Layer::kernel && frame.op) return fmt::format("kernel {}", *frame.op);
    return {};
  });
}

using Waiting = std::unordered_map<std::uint64_t, std::deque<std::uint32_t>>;

/// Returns the next entry of `waiting` that can still be paired.
std::uint32_t next_of(Waiting& waiting, std::uint64_t key, const MatchedSide& side) {
  const auto alike = waiting.find(key);
  if (alike == waiting.end()) return MatchedSide::kNone;
  while (!alike->second.empty()) {
    const std::uint32_t entry = alike->second.front();
    alike->second.pop_front();
    const MatchedSide::Entry& found = side.entries[entry];
    if (!found.dropped && !found.matches_behind && found.match == MatchedSide::kNone) return entry;
  }
  return MatchedSide::kNone;
}

/// Pairs entries that one side has in several paths and the other in fewer, with as many calls in
/// total: a function in between was inlined on one side only.
void share(MatchedFrames& result, std::uint64_t calls_first, std::uint64_t calls_second) {
  struct Total {
    double calls[2] = {0, 0};
    std::uint32_t last_match[2] = {MatchedSide::kNone,
                                   MatchedSide::kNone};  // The last matched entry of each side.
    bool left[2] = {false, false};
  };
  std::unordered_map<std::uint64_t, Total> totals;
  MatchedSide* const sides[2] = {&result.first, &result.second};
  bool anything_left = false;
  for (std::size_t s = 0; s < 2; ++s) {
    for (std::uint32_t i = 0; i < sides[s]->entries.size(); ++i) {
      const MatchedSide::Entry& entry = sides[s]->entries[i];
      if (entry.dropped) continue;
      Total& total = totals[entry.key];
      total.calls[s] += static_cast<double>(entry.frame->calls);
      if (entry.match != MatchedSide::kNone) total.last_match[s] = i;
      total.left[s] = total.left[s] || entry.match == MatchedSide::kNone;
      anything_left = anything_left || entry.match == MatchedSide::kNone;
    }
  }
  if (!anything_left) return;
  const auto times = [](std::uint64_t calls) { return static_cast<double>(calls); };
  for (std::size_t s = 0; s < 2; ++s) {
    for (MatchedSide::Entry& entry : sides[s]->entries) {
      if (entry.dropped || entry.match != MatchedSide::kNone || entry.matches_behind) continue;
      const Total& total = totals[entry.key];
      if (total.left[1 - s] || total.last_match[1 - s] == MatchedSide::kNone ||
          total.calls[0] * times(calls_second) != total.calls[1] * times(calls_first))
        continue;
      entry.match = total.last_match[1 - s];
      entry.shared = true;
      result.balanced.insert(entry.key);
    }
  }
  for (MatchedSide* const side : sides)
    for (std::uint32_t i = 0; i < side->entries.size(); ++i)
      if (side->entries[i].shared) drop_behind(*side, i);
}

}  // namespace

MatchedFrames FrameMatcher::match(const std::vector<Frame>& first, const std::vector<Frame>& second,
                                  std::uint64_t calls_first, std::uint64_t calls_second) {
  MatchedFrames result;
  MatchedSide& a = result.first;
  MatchedSide& b = result.second;
  std::vector<std::uint32_t> open_a = start(a, first);
  std::vector<std::uint32_t> open_b = start(b, second);
  pair_by(a, open_a, b, open_b, [](const Frame& frame, std::uint64_t key) {
    return frame.layer == Layer::device ? fmt::format("{} {}", key, frame.name)
                                        : fmt::format("{}", key);
  });
  pair_by(a, open_a, b, open_b,
          [](const Frame&, std::uint64_t key) { return fmt::format("{}", key); });
  if (!same_build_) pair_moved(a, open_a, b, open_b);
  pair_renamed(a, open_a, b, open_b);
  match_behind(a, std::move(open_a), b, std::move(open_b));
  share(result, calls_first, calls_second);
  return result;
}

/// Adds `frames`, and the frames below wrappers. Returns the entries that are not wrappers.
std::vector<std::uint32_t> FrameMatcher::add(MatchedSide& side, const std::vector<Frame>& frames,
                                             std::uint32_t parent) {
  std::vector<std::uint32_t> added;
  std::deque<std::pair<const std::vector<Frame>*, std::uint32_t>> pending{{&frames, parent}};
  while (!pending.empty()) {
    const auto [list, above] = pending.front();
    pending.pop_front();
    const auto begin = static_cast<std::uint32_t>(side.entries.size());
    if (above != MatchedSide::kNone) {
      side.entries[above].first_behind = begin;
      side.entries[above].behind = static_cast<std::uint32_t>(list->size());
    }
    for (const Frame& frame : *list)
      side.entries.push_back({.frame = &frame, .key = keys_.key_of(frame), .parent = above});
    for (std::uint32_t i = begin; i < side.entries.size(); ++i) {
      const Frame& frame = *side.entries[i].frame;
      if (is_wrapper(frame))
        pending.emplace_back(&frame.children, i);
      else
        added.push_back(i);
    }
  }
  return added;
}

std::vector<std::uint32_t> FrameMatcher::start(MatchedSide& side,
                                               const std::vector<Frame>& frames) {
  side.direct = static_cast<std::uint32_t>(frames.size());
  return add(side, frames, MatchedSide::kNone);
}

/// Searches below entries without a match, level by level, for entries that have one.
void FrameMatcher::match_behind(MatchedSide& a, std::vector<std::uint32_t> open_a, MatchedSide& b,
                                std::vector<std::uint32_t> open_b) {
  Waiting waiting_a, waiting_b;
  for (const std::uint32_t entry : open_a) waiting_a[a.entries[entry].key].push_back(entry);
  for (const std::uint32_t entry : open_b) waiting_b[b.entries[entry].key].push_back(entry);
  const auto look_behind = [this](MatchedSide& side, std::vector<std::uint32_t>& open) {
    std::vector<std::uint32_t> found;
    for (const std::uint32_t entry : open) {
      if (side.entries[entry].match != MatchedSide::kNone || side.entries[entry].dropped) continue;
      const std::vector<std::uint32_t> behind =
          add(side, side.entries[entry].frame->children, entry);
      found.insert(found.end(), behind.begin(), behind.end());
    }
    open = std::move(found);
  };
  while (!open_a.empty() || !open_b.empty()) {
    look_behind(a, open_a);
    for (const std::uint32_t entry : open_a) {
      const std::uint64_t key = a.entries[entry].key;
      if (const std::uint32_t match = next_of(waiting_b, key, b); match != MatchedSide::kNone)
        pair(a, entry, b, match);
      else
        waiting_a[key].push_back(entry);
    }
    look_behind(b, open_b);
    for (const std::uint32_t entry : open_b) {
      if (b.entries[entry].dropped) continue;
      const std::uint64_t key = b.entries[entry].key;
      if (const std::uint32_t match = next_of(waiting_a, key, a); match != MatchedSide::kNone)
        pair(a, match, b, entry);
      else
        waiting_b[key].push_back(entry);
    }
  }
}

}  // namespace optrace
