#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tracer/calltree/call_tree.h"
#include "tracer/calltree/memory_budget.h"
#include "tracer/calltree/transition_cache.h"
#include "tracer/probes/function_roles.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Which of what a program does is counted. Nothing set: everything.
struct TraceSelection {
  /// Ops by name, `aten::conv*` or `conv*`, with `*` for any characters; an op that is called by
  /// one that matches comes with it. Empty: whatever happens, in an op or not.
  std::string ops{};
  std::string from_module{};  ///< Only below Python functions of this module or package.
  std::uint64_t skip = 0;     ///< Outermost selected op calls that are passed over first.
  std::uint64_t count = 0;  ///< How many are counted then; 0: all. Afterwards recording is stopped.

  bool everything() const { return ops.empty() && from_module.empty() && skip == 0 && count == 0; }
};

/// What the counter needs to know beyond the call tree.
class PathFunctions : public CallTreeFunctions {
 public:
  virtual const FunctionRole& role(std::uint32_t function) const = 0;
  /// Whether only what the function leads to is worth a path: one without a function stands for it
  /// and all of its kind below.
  virtual bool is_plumbing(std::uint32_t function) const = 0;
  virtual std::string_view python_name(std::uint32_t python_function) const = 0;
  /// `aten::add.Tensor`, or what else has a record of its calls; empty for what has none.
  virtual std::string_view op_name(std::uint32_t record) const = 0;
};

/// Counts the ways through the calls of any number of threads, in memory that grows with the number
/// of distinct ways only, and to the budget's end. The rules of the call tree run once for each
/// situation: what they made of it is remembered, and met again, an event costs a look-up.
class PathCounter {
 public:
  /// `functions` must outlive the counter. What is beyond the budget, or too deep, is merged: it is
  /// counted by its function, below a path of kind `merged`. Without a budget there is one of the
  /// default size.
  PathCounter(const PathFunctions& functions, TraceSelection selection,
              std::shared_ptr<MemoryBudget> budget = nullptr);
  ~PathCounter();
  PathCounter(const PathCounter&) = delete;
  PathCounter& operator=(const PathCounter&) = delete;

  /// Returns the thread's index, from 0.
  std::uint32_t add_thread();

  /// Outermost first, before the thread's first event.
  void add_initial(std::uint32_t thread, const InitialFrame& frame);

  /// Events of one thread in their order, of different threads roughly by time: what is linked
  /// across threads (parallel regions, backward passes) goes by it.
  void add(std::uint32_t thread, const Event& event);

  /// As add, where events go by keys of their own: those of the same meaning have the same key.
  void add(std::uint32_t thread, const Event& event, const EventKey& key);

  /// Does what was done for this key in the same situation before, which needs no Event; false, and
  /// nothing is done, where none is remembered. For function entries and events of Python only.
  bool add_known(std::uint32_t thread, const EventKey& key, std::uint64_t time);

  /// How long (nanoseconds) an event should wait until those of other threads are in: a worker may
  /// enter a parallel region before the thread that opened it does.
  std::uint64_t patience(std::uint32_t thread, const Event& event) const;
  /// False while patience is 0 for all that the thread may enter.
  bool may_wait(std::uint32_t thread) const;

  std::uint64_t ops() const;  ///< Outermost selected op calls so far.
  std::size_t paths() const;
  bool enough() const;  ///< As many were counted as the selection wants.

  /// Ends what lives, and hands over what was counted. Once.
  std::vector<TracePath> take(std::uint64_t time);

  CallTreeStatistics statistics() const;

  /// After take(): calls below paths of kind `merged`, and those of them of which not even the
  /// function is known.
  std::uint64_t merged_calls() const;
  std::uint64_t unnamed_calls() const;

  /// What devices did for calls that nobody saw, or no more remembers.
  std::uint64_t untied_activities() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// What to warn of where so many activities are untied; empty for none.
std::string untied_activities_warning(std::uint64_t untied);

/// Counts among a trace's shortfalls what was merged. After take().
void note_merged_paths(nlohmann::json& meta, const PathCounter& counter);

/// Sets the trace's paths and statistics from its timeline, which may be dropped afterwards, and
/// adds to its warnings.
/// Throws Error(usage) if an event names what the trace does not have.
void count_paths(Trace& trace, const TraceSelection& selection,
                 std::shared_ptr<MemoryBudget> budget = nullptr);

/// True if `text` matches `pattern`, in which `*` stands for any characters.
bool matches_op_pattern(std::string_view op, std::string_view pattern);

}  // namespace optrace
