#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <xxhash.h>

#include "tracer/trace/trace.h"

namespace optrace {

/// Values that are numbered by content. Values mostly come in the same order as in the trace
/// before, so the one that follows the last one found is tried first.
template <typename T>
class Numbered {
 public:
  std::uint32_t add(const T& value) {
    if (const std::uint32_t known = find(value); known != kNone) return known;
    numbers_.emplace(hash_of(value), static_cast<std::uint32_t>(values_.size()));
    next_ = static_cast<std::uint32_t>(values_.size()) + 1;
    values_.push_back(value);
    return next_ - 1;
  }

  /// Returns kNone if there is no such value.
  std::uint32_t find(const T& value) {
    if (next_ < values_.size() && is_same(values_[next_], value)) return next_++;
    const auto [begin, end] = numbers_.equal_range(hash_of(value));
    for (auto at = begin; at != end; ++at) {
      if (!is_same(values_[at->second], value)) continue;
      next_ = at->second + 1;
      return at->second;
    }
    return kNone;
  }

  /// The next value is probably the first one.
  void start_again() { next_ = 0; }

  std::size_t size() const { return values_.size(); }
  T& operator[](std::uint32_t number) { return values_[number]; }
  const T& operator[](std::uint32_t number) const { return values_[number]; }

 private:
  static std::uint64_t hash_of(std::string_view text, std::uint64_t seed = 0) {
    return XXH3_64bits_withSeed(text.data(), text.size(), seed);
  }
  static std::uint64_t hash_of(const TraceFunction& function) {
    return hash_of(function.source_file, hash_of(function.symbol, function.address)) ^
           function.module;
  }
  static std::uint64_t hash_of(const PythonFunction& function) {
    return hash_of(function.name, hash_of(function.file, function.first_line));
  }

  static bool is_same(std::string_view left, std::string_view right) { return left == right; }
  static bool is_same(const TraceFunction& left, const TraceFunction& right) {
    return left.address == right.address && left.module == right.module &&
           left.symbol == right.symbol && left.source_file == right.source_file;
  }
  static bool is_same(const PythonFunction& left, const PythonFunction& right) {
    return left.first_line == right.first_line && left.name == right.name &&
           left.file == right.file;
  }

  std::vector<T> values_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;
  std::uint32_t next_ = 0;
};

/// Returns the place of each of `count` values in the order of `before`.
template <typename Before>
std::vector<std::uint32_t> places_of(std::size_t count, const Before& before,
                                     std::vector<std::uint32_t>* sorted = nullptr) {
  std::vector<std::uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, before);
  std::vector<std::uint32_t> places(count);
  for (std::uint32_t i = 0; i < count; ++i) places[order[i]] = i;
  if (sorted != nullptr) *sorted = std::move(order);
  return places;
}

inline std::uint32_t at_or_none(const std::vector<std::uint32_t>& numbers, std::uint32_t place) {
  return place == kNone ? kNone : numbers[place];
}

}  // namespace optrace
