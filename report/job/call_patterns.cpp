#include "report/job/call_patterns.h"

#include <algorithm>
#include <limits>

namespace optrace {
namespace {

// Consecutive processes that took a path equally often.
struct CountedRun {
  std::uint32_t first, last;
  std::uint64_t least, most;
};

// Appends processes that come after all of the set.
void append(ProcessSet& set, std::uint32_t first, std::uint32_t last) {
  if (!set.empty() && first != 0 && set.back().last == first - 1)
    set.back().last = last;
  else
    set.push_back({first, last});
}

std::vector<CountedRun> runs_of(const CallPattern& pattern, const CallPatterns& patterns) {
  std::vector<CountedRun> runs;
  for (const CallGroup& group : pattern)
    for (const ProcessRun& run : patterns.set(group.processes))
      runs.push_back({run.first, run.last, group.least, group.most});
  std::ranges::sort(runs, {}, &CountedRun::first);
  return runs;
}

// Adds up two lists of runs. Where both have a process, its calls are added up too.
std::vector<CountedRun> add_up(std::vector<CountedRun> left, std::vector<CountedRun> right) {
  std::vector<CountedRun> sum;
  std::size_t l = 0;
  std::size_t r = 0;
  while (l < left.size() && r < right.size()) {
    CountedRun& a = left[l];
    CountedRun& b = right[r];
    if (a.last < b.first) {
      sum.push_back(left[l++]);
    } else if (b.last < a.first) {
      sum.push_back(right[r++]);
    } else if (a.first != b.first) {
      CountedRun& earlier = a.first < b.first ? a : b;
      const std::uint32_t both = std::max(a.first, b.first);
      sum.push_back({earlier.first, both - 1, earlier.least, earlier.most});
      earlier.first = both;
    } else {
      const std::uint32_t end = std::min(a.last, b.last);
      sum.push_back({a.first, end, a.least + b.least, a.most + b.most});
      const bool left_ends = a.last == end;
      const bool right_ends = b.last == end;
      a.first = b.first = end + 1;
      if (left_ends) ++l;
      if (right_ends) ++r;
    }
  }
  sum.insert(sum.end(), left.begin() + static_cast<std::ptrdiff_t>(l), left.end());
  sum.insert(sum.end(), right.begin() + static_cast<std::ptrdiff_t>(r), right.end());
  return sum;
}

}  // namespace

std::uint64_t count_of(const ProcessSet& processes) {
  std::uint64_t count = 0;
  for (const ProcessRun& run : processes) count += std::uint64_t{run.last} - run.first + 1;
  return count;
}

std::uint32_t CallPatterns::add_set(ProcessSet processes) {
  const auto [at, added] =
      set_ids_.try_emplace(std::move(processes), static_cast<std::uint32_t>(sets_.size()));
  if (added) sets_.push_back(&at->first);
  return at->second;
}

std::uint32_t CallPatterns::add(CallPattern pattern) {
  const auto [at, added] =
      pattern_ids_.try_emplace(std::move(pattern), static_cast<std::uint32_t>(patterns_.size()));
  if (added) patterns_.push_back(&at->first);
  return at->second;
}

CallPattern CallPatterns::summed(const CallPattern& left, const CallPattern& right) {
  const std::vector<CountedRun> runs = add_up(runs_of(left, *this), runs_of(right, *this));
  std::map<std::pair<std::uint64_t, std::uint64_t>, ProcessSet> groups;
  bool exact = true;
  for (const CountedRun& run : runs) {
    exact = exact && run.least == run.most;
    append(groups[{run.least, run.most}], run.first, run.last);
    if (groups.size() > kMaxCallGroups) exact = false;
    if (!exact) break;
  }
  CallPattern sum;
  if (exact) {
    for (auto& [calls, processes] : groups)
      sum.push_back({calls.first, calls.second, add_set(std::move(processes))});
    return sum;
  }
  CallGroup all{std::numeric_limits<std::uint64_t>::max(), 0, 0};
  ProcessSet processes;
  for (const CountedRun& run : runs) {
    all.least = std::min(all.least, run.least);
    all.most = std::max(all.most, run.most);
    append(processes, run.first, run.last);
  }
  all.processes = add_set(std::move(processes));
  return {all};
}

std::uint32_t CallPatterns::sum(std::uint32_t left, std::uint32_t right) {
  const std::pair key(std::min(left, right), std::max(left, right));
  if (const auto known = sums_.find(key); known != sums_.end()) return known->second;
  const std::uint32_t result = add(summed((*this)[left], (*this)[right]));
  sums_.emplace(key, result);
  return result;
}

std::uint32_t CallPatterns::participants(std::uint32_t pattern) {
  const CallPattern& groups = (*this)[pattern];
  if (groups.empty()) return add_set({});
  std::uint32_t all = groups.front().processes;
  for (std::size_t i = 1; i < groups.size(); ++i) all = unite(all, groups[i].processes);
  return all;
}

std::uint32_t CallPatterns::unite(std::uint32_t left, std::uint32_t right) {
  if (left == right) return left;
  const std::pair key(std::min(left, right), std::max(left, right));
  if (const auto known = unions_.find(key); known != unions_.end()) return known->second;
  ProcessSet all;
  for (const CountedRun& run :
       add_up(runs_of({{0, 0, left}}, *this), runs_of({{0, 0, right}}, *this)))
    append(all, run.first, run.last);
  const std::uint32_t result = add_set(std::move(all));
  unions_.emplace(key, result);
  return result;
}

}  // namespace optrace
