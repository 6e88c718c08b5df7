#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/check/check.h"
#include "report/model/report.h"

namespace optrace {

/// A frame with the frames above it.
struct PathToFrame {
  const std::vector<const Frame*>& frames;  ///< Outermost first; the last one is the frame.
  std::size_t user_frame = 0;               ///< Position, by innermost_user_frame().
  std::string_view python_function;  ///< Innermost Python function above the frame; may be empty.

  const Frame& frame() const { return *frames.back(); }
};

/// Returns the name of a frame for display.
std::string shown_name(const Frame& frame);

/// The number of occurrences of what a rule is about, the path to the first, and the lines of the
/// program that lead to them.
class Occurrences {
 public:
  /// Adds occurrences in the last frame of a path; none if `count` is 0.
  void add(const PathToFrame& path, std::uint64_t count);
  /// Adds occurrences whose path is of no interest.
  void add(std::uint64_t count) { count_ += count; }

  /// Adds a line of the program without changing the count.
  void add_place(const PathToFrame& path, std::uint64_t count);
  void add_place(CheckPlace place) { places_.push_back(std::move(place)); }
  /// Adds to the place with the same line if there is one.
  void merge_place(const CheckPlace& place);

  /// Keeps the path if it is the first.
  void add_path(const std::vector<const Frame*>& frames);

  std::uint64_t count() const { return count_; }
  bool has_path() const { return first_.has_value(); }

  /// Returns the path to the first occurrence, outermost step first.
  std::vector<CheckStep> path() const;
  /// Returns the lines, the most frequent first.
  std::vector<CheckPlace> places() const;

 private:
  std::uint64_t count_ = 0;
  std::optional<std::vector<const Frame*>> first_;
  std::vector<CheckPlace> places_;  // In the order of first occurrence.
  std::map<std::pair<std::string_view, std::uint32_t>, std::size_t> known_places_;
};

}  // namespace optrace
