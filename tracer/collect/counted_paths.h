#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "platform/chunked_vector.h"
#include "tracer/calltree/path_functions.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/collect/op_selection.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Identifies a path among those with the same parent. Contains all its data but the counts.
struct CountedPathKey {
  std::uint32_t parent;
  std::uint32_t what;
  std::uint32_t line;
  std::uint32_t builtin;
  std::uint32_t caused_by;
  std::uint32_t kind_and_jump;
  std::uint32_t thread;       ///< Roots only.
  std::uint32_t call_offset;  ///< TracePath::call_offset.
  bool operator==(const CountedPathKey&) const = default;

  static std::uint32_t combined(PathKind kind, bool jump) {
    return static_cast<std::uint32_t>(kind) * 2 + (jump ? 1U : 0U);
  }
  PathKind kind() const { return static_cast<PathKind>(kind_and_jump / 2); }
  bool is_tail_call() const { return kind_and_jump % 2 != 0; }
  bool is_function() const { return kind() == PathKind::function && what != kNone; }
  /// A path that stands for a function without a path of its own (PathFunctions::is_uncounted).
  bool is_uncounted() const { return kind() == PathKind::function && what == kNone; }
};

/// The counts of a path, and the selection's decisions for it, in one cache line.
struct alignas(64) PathUsage {
  std::uint64_t calls = 0;
  std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
  std::uint32_t first_thread = kNone, last_thread = kNone;
  std::uint32_t thread_count = 1;
  std::uint32_t root = kNone;    ///< The outermost path above it, or itself.
  std::uint32_t depth = 0;       ///< Number of paths above it.
  std::uint32_t counts = kNone;  ///< Index into the lists that few paths have.
  bool chosen = false;           ///< Selected, or inside a selected call.
  bool chosen_op = false;        ///< An outermost selected op call.
  bool in_op = false;            ///< A selected op call, or inside one.
  bool in_module = false;        ///< Inside the selected module.
  /// Its function is the body of the parallel region that its parent opens.
  bool opens = false;

  void add_time(std::uint64_t took) {
    shortest_time = total_time == 0 && longest_time == 0 ? took : std::min(shortest_time, took);
    longest_time = std::max(longest_time, took);
    total_time += took;
  }
};
static_assert(sizeof(PathUsage) == 64);

/// The distinct call paths of a recording with their counts. Its memory is limited: paths beyond
/// the budget, or too deep, are counted by their function alone, below a path of kind `merged`.
class CountedPaths {
 public:
  /// `functions` and `selection` must outlive the object.
  CountedPaths(const PathFunctions& functions, const OpSelection& selection,
               std::shared_ptr<MemoryBudget> budget);

  /// Returns the index of the path with this key, or of the path in which it is counted. `thread`
  /// is that of a new root.
  std::uint32_t add(const CountedPathKey& key, std::uint32_t thread);

  std::size_t size() const { return paths_.size(); }
  const CountedPathKey& operator[](std::uint32_t path) const { return paths_[path]; }
  PathUsage& usage(std::uint32_t path) { return usages_[path]; }
  const PathUsage& usage(std::uint32_t path) const { return usages_[path]; }

  /// Counts a call by a thread.
  void count_call(std::uint32_t path, std::uint32_t thread) {
    PathUsage& usage = usages_[path];
    ++usage.calls;
    if (usage.first_thread == kNone) usage.first_thread = usage.last_thread = thread;
    if (usage.last_thread != thread) count_thread(path, thread);
  }

  /// Counts an op record of a call. Ignored for kNone and for `merged` paths.
  void count_record(std::uint32_t path, std::uint32_t record, std::uint32_t results);
  /// Counts the first two arguments of a call. Ignored for `merged` paths.
  void count_arguments(std::uint32_t path, std::uint64_t first, std::uint64_t second);
  /// Counts what a call returned. Ignored for `merged` paths.
  void count_returned(std::uint32_t path, std::uint64_t value);
  /// Counts work of a device, which took that long (in nanoseconds).
  void count_activity(std::uint32_t path, std::uint32_t record, std::uint64_t took);

  /// Returns the paths that were counted and those that lead to them. Call once. `new_places` gets
  /// the index in the result for each path, kNone for the others.
  std::vector<TracePath> take(std::vector<std::uint32_t>* new_places = nullptr);

  /// Calls below paths of kind `merged`. Valid after take().
  std::uint64_t merged_calls() const { return merged_; }
  /// Calls among merged_calls() whose function is unknown. Valid after take().
  std::uint64_t unnamed_calls() const { return unnamed_; }

 private:
  // Data that few paths have.
  struct Counts {
    std::vector<OpCallCount> ops{};
    std::vector<ArgumentCount> arguments{};
    std::uint64_t ops_left_out = 0;
    std::vector<ActivityCount> activities{};
    std::uint64_t activities_left_out = 0;
    std::vector<ReturnCount> returned{};
    std::uint64_t returned_left_out = 0;
  };

  std::uint32_t add_merged(const CountedPathKey& key, std::uint32_t thread);
  std::uint32_t insert(const CountedPathKey& key);
  std::uint32_t& slot_of(const CountedPathKey& key);
  void grow_slots();
  bool is_merged(std::uint32_t path) const;
  bool has_room_below(std::uint32_t parent) const;
  PathUsage choose(const CountedPathKey& path) const;
  bool is_body_of_region(const CountedPathKey& path) const;
  void count_thread(std::uint32_t path, std::uint32_t thread);
  Counts& counts_of(std::uint32_t path);
  std::vector<std::uint8_t> find_kept();
  TracePath trace_path(std::uint32_t path, bool is_merged);

  const PathFunctions& functions_;
  const OpSelection& selection_;
  const std::shared_ptr<MemoryBudget> budget_;
  ChunkedVector<CountedPathKey> paths_;
  ChunkedVector<PathUsage> usages_;   // Parallel to `paths_`.
  std::deque<Counts> counts_;         // For some paths.
  std::vector<std::uint32_t> slots_;  // Paths by key: open addressing, half full at most.
  // path << 32 | thread, for paths of several threads.
  std::unordered_set<std::uint64_t> shared_;
  // Index into the activities of a path, by path << 32 | record.
  std::unordered_map<std::uint64_t, std::size_t> activity_places_;
  // True if some function below a "..." frame had no room.
  bool functions_left_out_ = false;
  std::uint64_t merged_ = 0, unnamed_ = 0;  // Calls in "..." frames, and without a function.
};

}  // namespace optrace
