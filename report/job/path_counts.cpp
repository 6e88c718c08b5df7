#include "report/job/path_counts.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace optrace {
namespace {

/// Adds a count to those of a path. Of too many, the first ones in the order of `before` are kept,
/// which makes the result independent of the order of addition. `expected` is the place of the
/// equal one, probably. Returns the calls that are not kept.
template <typename Counted, typename IsSame, typename Add, typename Before>
std::optional<Counted> add_counted(std::vector<Counted>& counts, std::size_t expected,
                                   const Counted& counted, std::size_t most,
                                   const IsSame& is_same_counted, const Add& add,
                                   const Before& before) {
  if (expected < counts.size() && is_same_counted(counts[expected], counted)) {
    add(counts[expected], counted);
    return std::nullopt;
  }
  const auto known = std::ranges::find_if(
      counts, [&](const Counted& one) { return is_same_counted(one, counted); });
  if (known != counts.end()) {
    add(*known, counted);
    return std::nullopt;
  }
  if (counts.size() < most) {
    counts.push_back(counted);
    return std::nullopt;
  }
  const auto last = std::ranges::max_element(counts, before);
  if (!before(counted, *last)) return counted;
  return std::exchange(*last, counted);
}

void add_time(std::uint64_t& shortest, std::uint64_t& longest, std::uint64_t more_shortest,
              std::uint64_t more_longest) {
  if (more_longest == 0) return;  // No call has ended.
  shortest = longest == 0 ? more_shortest : std::min(shortest, more_shortest);
  longest = std::max(longest, more_longest);
}

template <typename Counted>
void add_calls(Counted& known, const Counted& more) {
  known.calls += more.calls;
}
bool is_same_op(const OpCallCount& left, const OpCallCount& right) {
  return left.record == right.record && left.results == right.results;
}
bool is_same_argument(const ArgumentCount& left, const ArgumentCount& right) {
  return left.first == right.first && left.second == right.second;
}
bool before_argument(const ArgumentCount& left, const ArgumentCount& right) {
  return std::tie(left.first, left.second) < std::tie(right.first, right.second);
}
bool before(const OpCallCount& left, const OpCallCount& right, const MergedContents& contents) {
  if (left.record != right.record)
    return contents.record_text(left.record) < contents.record_text(right.record);
  return contents.record_text(left.results) < contents.record_text(right.results);
}

}  // namespace

void add_counts(const Trace& trace, const TracePath& path, const KeyNames& names,
                MergedContents& contents, TracePath& sum) {
  sum.thread_count = std::max(sum.thread_count, path.thread_count);
  sum.total_time += path.total_time;
  add_time(sum.shortest_time, sum.longest_time, path.shortest_time, path.longest_time);
  sum.ops_left_out += path.ops_left_out;
  sum.activities_left_out += path.activities_left_out;
  sum.returned_left_out += path.returned_left_out;
  for (std::size_t i = 0; i < path.returned.size(); ++i) {
    const auto left_out = add_counted(
        sum.returned, i, path.returned[i], kMaxCounts,
        [](const ReturnCount& left, const ReturnCount& right) { return left.value == right.value; },
        add_calls<ReturnCount>,
        [](const ReturnCount& left, const ReturnCount& right) { return left.value < right.value; });
    if (left_out) sum.returned_left_out += left_out->calls;
  }
  for (std::size_t i = 0; i < path.ops.size(); ++i) {
    const auto left_out =
        add_counted(sum.ops, i,
                    OpCallCount{contents.record_of(trace, path.ops[i].record),
                                contents.record_of(trace, path.ops[i].results), path.ops[i].calls},
                    kMaxCounts, is_same_op, add_calls<OpCallCount>,
                    [&](const OpCallCount& left, const OpCallCount& right) {
                      return before(left, right, contents);
                    });
    if (left_out) sum.ops_left_out += left_out->calls;
  }
  for (std::size_t i = 0; i < path.arguments.size(); ++i) {
    ArgumentCount counted = path.arguments[i];
    // The other argument is often a pointer, which differs from process to process.
    if (const auto set = names.only_set(counted.first, counted.second))
      counted = {*set, 0, counted.calls};
    add_counted(sum.arguments, i, counted, kMaxCounts, is_same_argument, add_calls<ArgumentCount>,
                before_argument);
  }
  for (std::size_t i = 0; i < path.activities.size(); ++i) {
    ActivityCount counted = path.activities[i];
    counted.record = contents.record_of(trace, counted.record);
    const auto left_out = add_counted(
        sum.activities, i, counted, kMaxActivities,
        [](const ActivityCount& left, const ActivityCount& right) {
          return left.record == right.record;
        },
        [](ActivityCount& known, const ActivityCount& more) {
          known.times += more.times;
          known.total_time += more.total_time;
          known.shortest_time = std::min(known.shortest_time, more.shortest_time);
          known.longest_time = std::max(known.longest_time, more.longest_time);
        },
        [&](const ActivityCount& left, const ActivityCount& right) {
          return contents.record_text(left.record) < contents.record_text(right.record);
        });
    if (left_out) sum.activities_left_out += left_out->times;
  }
}

}  // namespace optrace
