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

/// Adds a tally to those of a path. Of too many, the first ones in the order of `before` are kept,
/// which makes the result independent of the order of addition. `expected` is the place of the
/// equal one, probably. Returns the calls that are not kept.
template <typename Tally, typename IsSame, typename Add, typename Before>
std::optional<Tally> add_tally(std::vector<Tally>& tallies, std::size_t expected,
                               const Tally& tally, std::size_t most, const IsSame& is_same_tally,
                               const Add& add, const Before& before) {
  if (expected < tallies.size() && is_same_tally(tallies[expected], tally)) {
    add(tallies[expected], tally);
    return std::nullopt;
  }
  const auto known =
      std::ranges::find_if(tallies, [&](const Tally& one) { return is_same_tally(one, tally); });
  if (known != tallies.end()) {
    add(*known, tally);
    return std::nullopt;
  }
  if (tallies.size() < most) {
    tallies.push_back(tally);
    return std::nullopt;
  }
  const auto last = std::ranges::max_element(tallies, before);
  if (!before(tally, *last)) return tally;
  return std::exchange(*last, tally);
}

void add_time(std::uint64_t& shortest, std::uint64_t& longest, std::uint64_t more_shortest,
              std::uint64_t more_longest) {
  if (more_longest == 0) return;  // No call has ended.
  shortest = longest == 0 ? more_shortest : std::min(shortest, more_shortest);
  longest = std::max(longest, more_longest);
}

template <typename Tally>
void add_calls(Tally& known, const Tally& more) {
  known.calls += more.calls;
}
bool is_same_op(const OpTally& left, const OpTally& right) {
  return left.record == right.record && left.results == right.results;
}
bool is_same_argument(const ArgumentTally& left, const ArgumentTally& right) {
  return left.first == right.first && left.second == right.second;
}
bool before_argument(const ArgumentTally& left, const ArgumentTally& right) {
  return std::tie(left.first, left.second) < std::tie(right.first, right.second);
}
bool before(const OpTally& left, const OpTally& right, const MergedContents& contents) {
  if (left.record != right.record)
    return contents.record_text(left.record) < contents.record_text(right.record);
  return contents.record_text(left.results) < contents.record_text(right.results);
}

}  // namespace

void add_counts(const Trace& trace, const TracePath& path, const DispatchDetails& details,
                MergedContents& contents, TracePath& sum) {
  sum.thread_count = std::max(sum.thread_count, path.thread_count);
  sum.total_time += path.total_time;
  add_time(sum.shortest_time, sum.longest_time, path.shortest_time, path.longest_time);
  sum.ops_left_out += path.ops_left_out;
  sum.activities_left_out += path.activities_left_out;
  sum.returned_left_out += path.returned_left_out;
  for (std::size_t i = 0; i < path.returned.size(); ++i) {
    const auto left_out = add_tally(
        sum.returned, i, path.returned[i], kMaxTallies,
        [](const ReturnTally& left, const ReturnTally& right) { return left.value == right.value; },
        add_calls<ReturnTally>,
        [](const ReturnTally& left, const ReturnTally& right) { return left.value < right.value; });
    if (left_out) sum.returned_left_out += left_out->calls;
  }
  for (std::size_t i = 0; i < path.ops.size(); ++i) {
    const auto left_out = add_tally(
        sum.ops, i,
        OpTally{contents.record_of(trace, path.ops[i].record),
                contents.record_of(trace, path.ops[i].results), path.ops[i].calls},
        kMaxTallies, is_same_op, add_calls<OpTally>,
        [&](const OpTally& left, const OpTally& right) { return before(left, right, contents); });
    if (left_out) sum.ops_left_out += left_out->calls;
  }
  for (std::size_t i = 0; i < path.arguments.size(); ++i) {
    ArgumentTally tally = path.arguments[i];
    // The other argument is often a pointer, which differs from process to process.
    if (const auto set = details.only_key_set(tally)) tally = {*set, 0, tally.calls};
    add_tally(sum.arguments, i, tally, kMaxTallies, is_same_argument, add_calls<ArgumentTally>,
              before_argument);
  }
  for (std::size_t i = 0; i < path.activities.size(); ++i) {
    ActivityTally tally = path.activities[i];
    tally.record = contents.record_of(trace, tally.record);
    const auto left_out = add_tally(
        sum.activities, i, tally, kMaxActivities,
        [](const ActivityTally& left, const ActivityTally& right) {
          return left.record == right.record;
        },
        [](ActivityTally& known, const ActivityTally& more) {
          known.times += more.times;
          known.total_time += more.total_time;
          known.shortest_time = std::min(known.shortest_time, more.shortest_time);
          known.longest_time = std::max(known.longest_time, more.longest_time);
        },
        [&](const ActivityTally& left, const ActivityTally& right) {
          return contents.record_text(left.record) < contents.record_text(right.record);
        });
    if (left_out) sum.activities_left_out += left_out->times;
  }
}

}  // namespace optrace
