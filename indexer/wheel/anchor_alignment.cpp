#include "indexer/wheel/anchor_alignment.h"

#include <algorithm>
#include <cstddef>

namespace optrace {
namespace {

/// Calls `visit(file, anchors)` for each run of anchors of one file.
template <typename Visit>
void each_file(std::span<const IndexedAnchor> anchors, Visit visit) {
  for (std::size_t start = 0; start < anchors.size();) {
    std::size_t end = start;
    while (end < anchors.size() && anchors[end].file == anchors[start].file) ++end;
    visit(anchors[start].file, anchors.subspan(start, end - start));
    start = end;
  }
}

std::int64_t shift(std::uint32_t from, std::uint32_t to) {
  return std::int64_t{to} - std::int64_t{from};
}

std::uint32_t moved(std::uint32_t line, std::int64_t by) {
  return static_cast<std::uint32_t>(std::max<std::int64_t>(1, std::int64_t{line} + by));
}

}  // namespace

AnchorAlignment::AnchorAlignment(std::span<const IndexedAnchor> from,
                                 std::span<const IndexedAnchor> to) {
  std::unordered_map<std::string, std::span<const IndexedAnchor>> others;
  each_file(to, [&](const std::string& file, std::span<const IndexedAnchor> anchors) {
    others.emplace(file, anchors);
    files_[file].in_other = true;
  });
  each_file(from, [&](const std::string& file, std::span<const IndexedAnchor> anchors) {
    File& made = files_[file];
    made.in_first = true;
    if (const auto other = others.find(file); other != others.end())
      made.pairs = align(anchors, other->second);
  });
}

// Finds a longest common subsequence of the keys, by dynamic programming from the end.
std::vector<AnchorAlignment::Pair> AnchorAlignment::align(std::span<const IndexedAnchor> from,
                                                          std::span<const IndexedAnchor> to) {
  constexpr std::size_t kMostCells = 64'000'000;  // No file of PyTorch needs a tenth of this.
  if ((from.size() + 1) * (to.size() + 1) > kMostCells) return {};
  const std::size_t width = to.size() + 1;
  std::vector<std::uint16_t> longest((from.size() + 1) * width, 0);
  for (std::size_t i = from.size(); i-- > 0;) {
    for (std::size_t j = to.size(); j-- > 0;) {
      longest[i * width + j] =
          from[i].key == to[j].key
              ? static_cast<std::uint16_t>(longest[(i + 1) * width + j + 1] + 1)
              : std::max(longest[(i + 1) * width + j], longest[i * width + j + 1]);
    }
  }
  std::vector<Pair> pairs;
  bool adjacent = true;
  for (std::size_t i = 0, j = 0; i < from.size() && j < to.size();) {
    if (from[i].key == to[j].key) {
      pairs.push_back({from[i].line, to[j].line, adjacent});
      adjacent = true;
      ++i;
      ++j;
      continue;
    }
    adjacent = false;
    if (longest[(i + 1) * width + j] >= longest[i * width + j + 1])
      ++i;
    else
      ++j;
  }
  return pairs;
}

bool AnchorAlignment::is_gone(const std::string& file) const {
  const auto found = files_.find(file);
  return found != files_.end() && found->second.in_first && !found->second.in_other;
}

MappedLine AnchorAlignment::carry(const std::string& file, std::uint32_t line) const {
  const auto found = files_.find(file);
  if (found == files_.end() || found->second.pairs.empty()) return {line, LineInterval{}};
  const std::vector<Pair>& pairs = found->second.pairs;
  const auto next = std::ranges::lower_bound(pairs, line, {}, &Pair::from);
  if (next != pairs.end() && next->from == line) return {next->to, std::nullopt};
  if (next == pairs.end()) {
    const Pair& last = pairs.back();
    return {moved(line, shift(last.from, last.to)), LineInterval{}};
  }
  const std::int64_t after = shift(next->from, next->to);
  const bool first = next == pairs.begin();
  const std::int64_t before = first ? 0 : shift(std::prev(next)->from, std::prev(next)->to);
  if (before == after && next->adjacent) return {moved(line, after), std::nullopt};
  const std::uint32_t start = first ? 0 : std::prev(next)->from;
  // Anchors that came or went moved the lines among them, and cancel out behind them.
  if (before == after)
    return {moved(line, after), LineInterval{first ? 1 : std::prev(next)->to, next->to}};
  const bool nearer_to_start = line - start < next->from - line;
  return {moved(line, nearer_to_start ? before : after),
          LineInterval{moved(line, std::min(before, after)), moved(line, std::max(before, after))}};
}

}  // namespace optrace
