#include "truth/alignment.h"

#include <cstdint>

#include "tracer/trace/trace.h"

namespace optrace {

std::vector<std::uint32_t> align(std::span<const std::uint64_t> left,
                                 std::span<const std::uint64_t> right,
                                 std::size_t most_differences) {
  const auto rows = static_cast<std::int64_t>(left.size());
  const auto columns = static_cast<std::int64_t>(right.size());
  const auto most = static_cast<std::int64_t>(most_differences);
  const auto follow = [&](std::int64_t row, std::int64_t column) {
    while (row < rows && column < columns &&
           left[static_cast<std::size_t>(row)] == right[static_cast<std::size_t>(column)]) {
      ++row;
      ++column;
    }
    return row;
  };
  // reached[d][k + d]: the furthest row on diagonal k (row minus column) after d differences.
  std::vector<std::vector<std::int64_t>> reached;
  const auto at = [&](std::int64_t difference, std::int64_t diagonal) {
    if (diagonal < -difference || diagonal > difference) return std::int64_t{-1};
    return reached[static_cast<std::size_t>(difference)]
                  [static_cast<std::size_t>(diagonal + difference)];
  };
  struct Move {
    std::int64_t row = -1;  // Row at which the diagonal is entered; -1: it can't be.
    bool skips_left = false;
  };
  // Returns how `diagonal` is entered with one more difference than `difference`.
  const auto enter = [&](std::int64_t difference, std::int64_t diagonal) {
    Move best;
    if (difference < 0) return Move{diagonal == 0 ? 0 : -1, false};
    const std::int64_t skipping_right = at(difference, diagonal + 1);
    if (skipping_right >= 0 && skipping_right - diagonal <= columns) best.row = skipping_right;
    const std::int64_t before = at(difference, diagonal - 1);
    if (before >= 0 && before < rows && before + 1 > best.row) best = {before + 1, true};
    return best;
  };
  std::vector<std::uint32_t> matches(left.size(), kNone);
  std::int64_t differences = -1;
  for (std::int64_t d = 0; d <= most && differences < 0; ++d) {
    std::vector<std::int64_t> row_of(static_cast<std::size_t>(2 * d + 1), -1);
    for (std::int64_t k = -d; k <= d; k += 2) {
      const Move move = enter(d - 1, k);
      if (move.row < 0) continue;
      const std::int64_t row = follow(move.row, move.row - k);
      row_of[static_cast<std::size_t>(k + d)] = row;
      if (row == rows && row - k == columns) differences = d;
    }
    reached.push_back(std::move(row_of));
  }
  if (differences < 0) return matches;

  std::int64_t row = rows;
  std::int64_t column = columns;
  for (std::int64_t d = differences; d >= 0; --d) {
    const Move move = enter(d - 1, row - column);
    while (row > move.row) {
      --row;
      --column;
      matches[static_cast<std::size_t>(row)] = static_cast<std::uint32_t>(column);
    }
    if (move.skips_left) {
      --row;
    } else {
      --column;
    }
  }
  return matches;
}

}  // namespace optrace
