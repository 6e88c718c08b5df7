#include "report/compare/summed_threads.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace optrace {
namespace {

/// What a call is, besides its thread. The views are into a frame.
using Identity = std::tuple<Layer, std::string_view, std::string_view, std::string_view,
                            std::optional<std::uint32_t>, std::uint32_t, DispatchStep>;

Identity identity_of(const Frame& frame) {
  return {frame.layer,
          frame.name,
          frame.op ? std::string_view(*frame.op) : std::string_view(),
          frame.detail->python_name,
          frame.source ? frame.source->call_line : std::nullopt,
          frame.source && frame.source->call_range ? frame.source->call_range->column : 0,
          frame.detail->dispatch ? frame.detail->dispatch->step : DispatchStep::call};
}

template <typename List>
void append(List& list, const List& more) {
  list.insert(list.end(), more.begin(), more.end());
}

void add_returned(std::optional<ReturnedValues>& sum, const std::optional<ReturnedValues>& more) {
  if (!more) return;
  if (!sum) {
    sum = more;
    return;
  }
  sum->calls_left_out += more->calls_left_out;
  for (const CountedResult& one : more->values) {
    const auto same = std::ranges::find(sum->values, one.name, &CountedResult::name);
    if (same == sum->values.end() || same->value != one.value)
      sum->values.push_back(one);
    else
      same->calls += one.calls;
  }
}

/// Adds what is compared, and times.
void add_calls(Frame& sum, const Frame& more) {
  sum.calls += more.calls;
  if (sum.time && more.time) {
    sum.time->total += more.time->total;
    if (sum.time->range && more.time->range)
      sum.time->range = {std::min(sum.time->range->shortest, more.time->range->shortest),
                         std::max(sum.time->range->longest, more.time->range->longest)};
  }
  const Detail& from = *more.detail;
  if (from.calls.empty() && from.launches.empty() && !from.returned) return;
  Detail& detail = sum.detail.edit();
  append(detail.calls, from.calls);
  append(detail.launches, from.launches);
  add_returned(detail.returned, from.returned);
}

struct Addition {
  Frame* sum;
  Frame more;
};

/// Adds calls, and appends their children to the list if they are others than those of the sum.
/// Returns the additions to those of the sum.
std::vector<Addition> add(Frame& sum, Frame more) {
  add_calls(sum, more);
  std::map<std::pair<Identity, std::size_t>, std::size_t> known;  // The n-th of its kind.
  std::map<Identity, std::size_t> number;
  for (std::size_t i = 0; i < sum.children.size(); ++i) {
    const Identity identity = identity_of(sum.children[i]);
    known[{identity, number[identity]++}] = i;
  }
  number.clear();
  std::vector<std::pair<std::size_t, Frame*>> same;
  std::vector<Frame*> others;
  for (Frame& child : more.children) {
    const Identity identity = identity_of(child);
    const auto found = known.find({identity, number[identity]++});
    if (found == known.end())
      others.push_back(&child);
    else
      same.emplace_back(found->second, &child);
  }
  for (Frame* const other : others) sum.children.push_back(std::move(*other));
  std::vector<Addition> additions;
  additions.reserve(same.size());
  for (const auto& [at, child] : same) additions.push_back({&sum.children[at], std::move(*child)});
  return additions;
}

void add_tree(Frame& sum, Frame more) {
  std::vector<Addition> pending = add(sum, std::move(more));
  while (!pending.empty()) {
    Addition next = std::move(pending.back());
    pending.pop_back();
    std::ranges::move(add(*next.sum, std::move(next.more)), std::back_inserter(pending));
  }
}

/// The thread that calls something first decides the order of calls.
void sort_by_line(std::vector<Frame>& frames) {
  std::ranges::stable_sort(frames, {}, [](const Frame& frame) {
    return frame.source ? frame.source->call_line.value_or(0) : 0;
  });
}

/// Returns true if a frame was added to another.
bool sum_threads(std::vector<Frame>& frames) {
  std::vector<Frame> kept;
  kept.reserve(frames.size());  // The identities are views into its frames.
  std::map<Identity, std::size_t> known;
  for (Frame& frame : frames) {
    const auto same = known.find(identity_of(frame));
    if (same != known.end() && kept[same->second].thread != frame.thread) {
      add_tree(kept[same->second], std::move(frame));
      continue;
    }
    kept.push_back(std::move(frame));
    known.try_emplace(identity_of(kept.back()), kept.size() - 1);
  }
  const bool summed = kept.size() != frames.size();
  frames = std::move(kept);
  return summed;
}

}  // namespace

Report with_threads_summed(Report report) {
  struct List {
    std::vector<Frame>* frames;
    bool summed;
  };
  std::vector<List> pending{{&report.roots, false}};
  while (!pending.empty()) {
    const auto [frames, below_sum] = pending.back();
    pending.pop_back();
    const bool summed = sum_threads(*frames) || below_sum;
    if (below_sum) sort_by_line(*frames);
    for (Frame& frame : *frames) pending.push_back({&frame.children, summed});
  }
  return report;
}

}  // namespace optrace
