#include "tracer/collect/path_counter.h"

#include <utility>

#include <fmt/core.h>

#include "pytorch/functions/function_roles.h"
#include "tracer/collect/counted_paths.h"
#include "tracer/collect/thread_counter.h"

namespace optrace {
namespace {

// How far a worker's events may precede those of the thread that opened its region, if the
// arguments of the region's functions are not recorded.
constexpr std::uint64_t kRegionWait = 2'000'000;  // In nanoseconds.

// The key of a timeline's event. Functions are identified by their index.
EventKey key_of(const Event& event) {
  constexpr std::uint32_t kKinds = 0xF000'0000;  // Above all function indexes.
  if (event.kind == EventKind::function_entry)
    return {event.what, event.line, event.stack_pointer, event.return_address};
  if (event.kind == EventKind::caller) {
    return {kKinds + static_cast<std::uint32_t>(event.kind), event.what, event.stack_pointer,
            event.return_address};
  }
  return {kKinds + static_cast<std::uint32_t>(event.kind), event.line, event.stack_pointer,
          event.what};
}

}  // namespace

struct PathCounter::State {
  State(const PathFunctions& functions, TraceSelection selection,
        std::shared_ptr<MemoryBudget> budget)
      : shared(functions, std::move(selection), std::move(budget)) {}

  SharedCounts shared;
  std::vector<std::unique_ptr<ThreadCounter>> threads;
};

PathCounter::PathCounter(const PathFunctions& functions, TraceSelection selection,
                         std::shared_ptr<MemoryBudget> budget)
    : state_(
          std::make_unique<State>(functions, std::move(selection),
                                  budget ? std::move(budget) : std::make_shared<MemoryBudget>())) {}

PathCounter::~PathCounter() = default;

void PathCounter::observe(CallObserver& observer) {
  state_->shared.observer = &observer;
}

std::uint32_t PathCounter::add_thread() {
  const auto index = static_cast<std::uint32_t>(state_->threads.size());
  state_->threads.push_back(std::make_unique<ThreadCounter>(state_->shared, index));
  return index;
}

void PathCounter::add_initial(std::uint32_t thread, const InitialFrame& frame) {
  state_->threads[thread]->add_initial(frame);
}

void PathCounter::add(std::uint32_t thread, const Event& event) {
  add(thread, event, key_of(event));
}

void PathCounter::add(std::uint32_t thread, const Event& event, const EventKey& key) {
  state_->threads[thread]->add(event, key);
}

bool PathCounter::add_known(std::uint32_t thread, const recording::Event& raw, std::uint64_t time) {
  return state_->threads[thread]->add_known(raw, time);
}

std::size_t PathCounter::add_known(std::uint32_t thread, std::span<const recording::Event> events,
                                   const TickClock& clock, std::uint64_t until) {
  return state_->threads[thread]->add_known(events, clock, until);
}

bool PathCounter::may_wait(std::uint32_t thread) const {
  return state_->threads[thread]->is_at_start();  // Only a worker starts with a region's body.
}

std::uint64_t PathCounter::delay(std::uint32_t thread, const Event& event) const {
  if (event.kind != EventKind::function_entry || !may_wait(thread)) return 0;
  const FunctionRole& role = state_->shared.functions.role(event.what);
  if (role.region_data) return 0;  // Its region was opened before.
  const bool waits = role.region_body || state_->shared.regions.is_body(event.what);
  return waits ? kRegionWait : 0;
}

std::uint64_t PathCounter::ops() const {
  return state_->shared.selected_op_calls;
}

std::uint64_t PathCounter::calls_with(std::uint32_t record) const {
  const std::vector<KnownOp>& ops = state_->shared.ops;
  return record < ops.size() ? ops[record].calls : 0;
}

std::size_t PathCounter::paths() const {
  return state_->shared.paths.size();
}

bool PathCounter::enough() const {
  return state_->shared.selection.is_complete(state_->shared.selected_op_calls);
}

CallTreeStatistics PathCounter::statistics() const {
  CallTreeStatistics sum;
  for (const auto& thread : state_->threads)
    for (const auto statistic : kCallTreeStatistics)
      sum.*statistic += thread->statistics().*statistic;
  return sum;
}

std::uint64_t PathCounter::untied_activities() const {
  return state_->shared.untied;
}

std::vector<TracePath> PathCounter::take(std::uint64_t time, std::vector<std::uint32_t>* places) {
  for (const auto& thread : state_->threads) thread->finish(time);
  return state_->shared.paths.take(places);
}

std::uint64_t PathCounter::merged_calls() const {
  return state_->shared.paths.merged_calls();
}

std::uint64_t PathCounter::unnamed_calls() const {
  return state_->shared.paths.unnamed_calls();
}

std::string untied_activities_warning(std::uint64_t untied) {
  if (untied == 0) return {};
  return fmt::format(
      "{} kernels, copies or fills of the device are missing: the calls that launched them were "
      "not recorded, or are too old.",
      untied);
}

void add_merged_paths(TraceMeta& meta, const PathCounter& counter) {
  const std::uint64_t unnamed = counter.unnamed_calls();
  if (counter.merged_calls() != unnamed)
    meta.shortfalls["paths_merged"] += counter.merged_calls() - unnamed;
  if (unnamed != 0) meta.shortfalls["calls_unnamed"] += unnamed;
}

}  // namespace optrace
