#pragma once

// A set of byte ranges, used to track the contents of device memory.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace optrace::emulated {

/// The bytes from `begin` up to, but not including, `end`.
struct ByteRange {
  std::uintptr_t begin;
  std::uintptr_t end;
};

inline bool operator==(const ByteRange& a, const ByteRange& b) {
  return a.begin == b.begin && a.end == b.end;
}

/// A set of ranges that neither overlap nor touch each other.
class ByteRanges {
 public:
  void add(ByteRange range) {
    if (range.begin >= range.end) return;
    auto next = first_touching(range.begin);
    while (next != ranges_.end() && next->first <= range.end) {
      range.begin = std::min(range.begin, next->first);
      range.end = std::max(range.end, next->second);
      bytes_ -= next->second - next->first;
      next = ranges_.erase(next);
    }
    ranges_.emplace(range.begin, range.end);
    bytes_ += range.end - range.begin;
  }

  /// Removes the bytes in the range and returns those that were in the set.
  std::vector<ByteRange> remove(ByteRange range) {
    std::vector<ByteRange> removed = inside(range);
    for (const ByteRange& piece : removed) {
      const auto found = std::prev(ranges_.upper_bound(piece.begin));
      const ByteRange whole{found->first, found->second};
      ranges_.erase(found);
      if (whole.begin < piece.begin) ranges_.emplace(whole.begin, piece.begin);
      if (piece.end < whole.end) ranges_.emplace(piece.end, whole.end);
      bytes_ -= piece.end - piece.begin;
    }
    return removed;
  }

  /// Returns the parts of the range that are in the set, lowest first.
  std::vector<ByteRange> inside(ByteRange range) const {
    std::vector<ByteRange> found;
    if (range.begin >= range.end) return found;
    auto next = ranges_.upper_bound(range.begin);
    if (next != ranges_.begin() && std::prev(next)->second > range.begin) --next;
    for (; next != ranges_.end() && next->first < range.end; ++next)
      found.push_back({std::max(range.begin, next->first), std::min(range.end, next->second)});
    return found;
  }

  /// Returns the sum of the ranges' sizes.
  std::uint64_t bytes() const { return bytes_; }

 private:
  // Maps the beginning of a range to its end.
  using Ranges = std::map<std::uintptr_t, std::uintptr_t>;

  Ranges::iterator first_touching(std::uintptr_t begin) {
    const auto next = ranges_.upper_bound(begin);
    return next != ranges_.begin() && std::prev(next)->second >= begin ? std::prev(next) : next;
  }

  Ranges ranges_;
  std::uint64_t bytes_ = 0;
};

}  // namespace optrace::emulated
