#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tracer/calltree/path_functions.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/collect/op_selection.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/collect/transition_cache.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

class CallObserver;

/// Counts the call paths of any number of threads. Its memory grows only with the number of
/// distinct paths, up to the budget. The rules of the call tree run once for each transition: their
/// outcome is cached, so that a repeated event costs one look-up.
class PathCounter {
 public:
  /// `functions` must outlive the counter. Paths beyond the budget, or too deep, are merged: they
  /// are counted by function, below a path of kind `merged`. Without a budget, one of the default
  /// size is used.
  PathCounter(const PathFunctions& functions, TraceSelection selection,
              std::shared_ptr<MemoryBudget> budget = nullptr);
  ~PathCounter();
  PathCounter(const PathCounter&) = delete;
  PathCounter& operator=(const PathCounter&) = delete;

  /// Reports the calls that are counted from now on. The observer must outlive the counter.
  void observe(CallObserver& observer);

  /// Returns the thread's index, from 0.
  std::uint32_t add_thread();

  /// Adds an initial frame. Call outermost first, before the thread's first event.
  void add_initial(std::uint32_t thread, const InitialFrame& frame);

  /// Adds an event. The events of one thread must be in order, those of different threads roughly
  /// by time, because links between threads (parallel regions, backward passes) depend on it.
  void add(std::uint32_t thread, const Event& event);

  /// Same as above, with a key of the caller's own. Events that mean the same have the same key.
  void add(std::uint32_t thread, const Event& event, const EventKey& key);

  /// Adds an event whose outcome in the current state is cached, or that needs none, without an
  /// Event. Returns false for others.
  bool add_known(std::uint32_t thread, const recording::Event& raw, std::uint64_t time);

  /// Same for the next events of a thread, which another process may be writing. Returns their
  /// number: ends at the first that is empty, after the time `until`, or not known.
  std::size_t add_known(std::uint32_t thread, std::span<const recording::Event> events,
                        const TickClock& clock, std::uint64_t until);

  /// Returns how long (in nanoseconds) an event should wait for events of other threads: a worker
  /// may enter a parallel region before the thread that opened it does.
  std::uint64_t delay(std::uint32_t thread, const Event& event) const;
  /// Returns false if delay() is 0 for everything that the thread may enter.
  bool may_wait(std::uint32_t thread) const;

  std::uint64_t ops() const;  ///< Outermost selected op calls so far.
  /// The number of calls with this op record so far, regardless of the selection.
  std::uint64_t calls_with(std::uint32_t record) const;
  std::size_t paths() const;
  bool enough() const;  ///< True once the selected number of op calls is complete.

  /// Ends all live calls and returns the paths. Call once. `places` gets the index in the result
  /// for each path that an observer was told, kNone for those that are left out.
  std::vector<TracePath> take(std::uint64_t time, std::vector<std::uint32_t>* places = nullptr);

  CallTreeStatistics statistics() const;

  /// Calls below paths of kind `merged`. Valid after take().
  std::uint64_t merged_calls() const;
  /// Calls among merged_calls() whose function is unknown. Valid after take().
  std::uint64_t unnamed_calls() const;

  /// Device activities whose calls were not seen, or are no longer kept.
  std::uint64_t untied_activities() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Returns the warning for this number of untied activities; empty for 0.
std::string untied_activities_warning(std::uint64_t untied);

/// Adds the merged calls to a trace's shortfalls. Call after take().
void add_merged_paths(TraceMeta& meta, const PathCounter& counter);

}  // namespace optrace
