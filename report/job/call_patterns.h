#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace optrace {

/// Consecutive processes of a job, by their positions in its list of processes.
struct ProcessRun {
  std::uint32_t first = 0, last = 0;  ///< [first, last]
  auto operator<=>(const ProcessRun&) const = default;
};

/// Processes in ascending order, with a gap between the runs.
using ProcessSet = std::vector<ProcessRun>;

std::uint64_t count_of(const ProcessSet& processes);

/// Processes that took a path, and how often each of them did: from `least` to `most` times.
struct CallGroup {
  std::uint64_t least = 0, most = 0;
  std::uint32_t processes = 0;  ///< A set of CallPatterns.
  auto operator<=>(const CallGroup&) const = default;
};

/// How often each process took a path: groups with different exact numbers, in ascending order. If
/// there would be more than kMaxCallGroups, a single group without an exact number.
using CallPattern = std::vector<CallGroup>;
constexpr std::size_t kMaxCallGroups = 4;

/// Holds each different pattern and set of processes once, so that memory grows with the different
/// patterns and not with the paths that have them.
class CallPatterns {
 public:
  CallPatterns() = default;
  CallPatterns(CallPatterns&&) = default;
  CallPatterns& operator=(CallPatterns&&) = default;
  CallPatterns(const CallPatterns&) = delete;  // `sets_` and `patterns_` point into the maps.
  CallPatterns& operator=(const CallPatterns&) = delete;
  ~CallPatterns() = default;

  std::uint32_t add_set(ProcessSet processes);
  std::uint32_t add(CallPattern pattern);
  /// Returns the pattern of processes that took a path equally often.
  std::uint32_t add_uniform(std::uint32_t set, std::uint64_t calls) {
    return add({{calls, calls, set}});
  }

  const ProcessSet& set(std::uint32_t set) const { return *sets_[set]; }
  const CallPattern& operator[](std::uint32_t pattern) const { return *patterns_[pattern]; }
  std::size_t size() const { return patterns_.size(); }

  /// Returns the pattern of calls that are counted in either of two patterns. It depends neither on
  /// the order nor on the grouping of a sum, if no process is in two of its patterns.
  std::uint32_t sum(std::uint32_t left, std::uint32_t right);

  /// Returns the processes of all groups of a pattern.
  std::uint32_t participants(std::uint32_t pattern);
  std::uint32_t unite(std::uint32_t left, std::uint32_t right);

 private:
  CallPattern summed(const CallPattern& left, const CallPattern& right);

  std::map<ProcessSet, std::uint32_t> set_ids_;
  std::vector<const ProcessSet*> sets_;
  std::map<CallPattern, std::uint32_t> pattern_ids_;
  std::vector<const CallPattern*> patterns_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> sums_, unions_;
};

}  // namespace optrace
