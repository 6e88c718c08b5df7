#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <xxhash.h>

#include "tracer/calltree/call_observer.h"
#include "tracer/calltree/call_tree_rules.h"
#include "tracer/calltree/path_functions.h"
#include "tracer/collect/counted_paths.h"
#include "tracer/collect/memory_budget.h"
#include "tracer/collect/op_selection.h"
#include "tracer/collect/parallel_regions.h"
#include "tracer/collect/recent_map.h"
#include "tracer/collect/tick_clock.h"
#include "tracer/collect/transition_cache.h"
#include "tracer/collect/tree_states.h"
#include "tracer/trace/recording.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Identifies a forward op, for the autograd node that it creates.
struct ForwardOp {
  std::uint64_t thread, sequence;
  bool operator==(const ForwardOp&) const = default;

  struct Hash {
    std::size_t operator()(const ForwardOp& op) const { return XXH3_64bits(&op, sizeof op); }
  };
};

/// An op record whose op has begun before.
struct KnownOp {
  std::uint32_t op = kNone;  ///< CallTreeFunctions::op_of(); kNone if it may yet change.
  std::uint64_t calls = 0;
};

/// The data that the threads of a recording have in common.
struct SharedCounts {
  SharedCounts(const PathFunctions& path_functions, TraceSelection selected,
               std::shared_ptr<MemoryBudget> memory)
      : functions(path_functions),
        selection(std::move(selected)),
        budget(std::move(memory)),
        paths(functions, selection, budget) {}

  const PathFunctions& functions;
  const OpSelection selection;
  const std::shared_ptr<MemoryBudget> budget;
  CountedPaths paths;
  ParallelRegions regions;
  RecentMap<ForwardOp, std::uint32_t, ForwardOp::Hash> forward_ops{1 << 19};  // Their paths.
  /// The caller's path, by the number of the call that started work on the device; kNone if it is
  /// not counted.
  RecentMap<std::uint64_t, std::uint32_t> device_calls{1 << 18};
  std::vector<KnownOp> ops;             ///< By op record.
  std::uint32_t known_records = 0;      ///< All op records below this number exist.
  std::size_t cache_bytes = 0;          ///< Size of the caches of all threads.
  std::uint64_t untied = 0;             ///< Device activities whose calls are not known.
  std::uint64_t selected_op_calls = 0;  ///< Outermost selected op calls so far.
  CallObserver* observer = nullptr;
};

/// Counts the paths of one thread: applies the call tree's rules to its events, or their cached
/// outcome, and keeps the calls that are live.
class ThreadCounter : private CallTreeRules::Nodes {
 public:
  /// `number` is the thread's index. `shared` must outlive the object.
  ThreadCounter(SharedCounts& shared, std::uint32_t number)
      : shared_(shared), number_(number), rules_(shared.functions, *this) {}
  ThreadCounter(const ThreadCounter&) = delete;
  ThreadCounter& operator=(const ThreadCounter&) = delete;

  // As in PathCounter.
  void add_initial(const InitialFrame& frame);
  void add(const Event& event, const EventKey& key);
  bool add_known(const recording::Event& raw, std::uint64_t time);
  std::size_t add_known(std::span<const recording::Event> events, const TickClock& clock,
                        std::uint64_t until);

  /// Ends all live calls.
  void finish(std::uint64_t time);

  /// Returns true if the thread is at its beginning: it is in at most one native function.
  bool is_at_start() const { return native_.size() <= 1; }
  const CallTreeStatistics& statistics() const { return rules_.statistics(); }

 private:
  static constexpr std::uint64_t kUncounted = std::numeric_limits<std::uint64_t>::max();
  // Instead of a state's number: only the rules have the state.
  static constexpr std::uint32_t kUnnumbered = TreeStates::kUnnumbered;

  // An op that has not ended. There is one for each op in the state of the rules.
  struct OpenOp {
    std::size_t height;  // Number of Python frames, including the op.
    std::uint32_t path;  // Path that its record belongs to.
    std::uint32_t record;
    bool counted;
  };

  struct Live {
    EnteredFrame frame;
    std::uint32_t call = kNone;  // The observer's number.
    std::uint64_t start = kUncounted;
    std::uint64_t end = 0;  // Recorded end; 0 if only the next event bounds it.
    bool returned = false;  // Its value has been recorded.

    bool is_counted() const { return start != kUncounted; }
  };

  // Live frames, outermost first. The memory of those that ended is used again.
  class LiveFrames {
   public:
    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    Live& operator[](std::size_t at) { return frames_[at]; }
    const Live& operator[](std::size_t at) const { return frames_[at]; }
    Live& back() { return frames_[size_ - 1]; }
    const Live& back() const { return frames_[size_ - 1]; }
    // New frames have any content.
    void resize(std::size_t size) {
      if (size > frames_.size()) frames_.resize(size * 2);
      size_ = size;
    }

   private:
    std::vector<Live> frames_;
    std::size_t size_ = 0;
  };

  // A call_record whose function may be entered next.
  struct CallOnItsWay {
    std::uint64_t stack_pointer;
    std::uint32_t record;
    // The path that the record belongs to if its function is not entered; kNone if it is not
    // counted.
    std::uint32_t caller;
  };

  std::uint32_t add(const CallTreeRules::Node& node, const Event* event) override;

  const CallTreeRules::State& state() const {
    return now_ == kUnnumbered ? rules_.state() : tree_states_[now_];
  }
  void join_region(const Event& event, CountedPathKey& path);
  std::uint32_t call_offset_of(const CallTreeRules::Node& node, const Event* event) const;

  // Calls that begin and end.
  void enter(Live& live, const EnteredFrame& frame, std::uint64_t time);
  void leave(const Live& live, std::uint64_t time);
  bool repeats(const CallTreeRules::State& state, std::size_t native) const;
  void move_to(const Outcome& outcome, std::uint64_t slot, const EnteredFrame* frames,
               std::uint64_t time);

  // Events and their outcomes.
  Outcome outcome_of(const CallTreeRules::Kept& kept, std::uint64_t slot);
  void repeat(const Outcome& outcome, std::uint64_t slot, std::uint64_t time);
  void apply(const Event& event, const EventKey& key);
  void limit_cache();
  void add_step(const Event& event, const EventKey& key);
  bool add_known_step(const recording::Event& raw, std::uint64_t time);
  void enter_body(const Event& next);

  // Ops and records of calls.
  void take_record(const Event& event);
  void begin_op(const Event& event, const EventKey& key);
  bool begin_known_op(const recording::Event& raw, std::uint64_t time);
  void open_op(std::uint32_t record, std::uint64_t thread, std::uint64_t sequence);
  void end_op(const Event& event, const EventKey& key);
  bool end_known_op(const recording::Event& raw, std::uint64_t time);
  void end_op_at(std::size_t ending, std::uint32_t results, std::uint64_t time);
  void close_op(std::uint32_t results);
  void take_arguments(std::uint32_t slot, std::uint64_t first, std::uint64_t second);
  void add_returned(const Event& event);
  void take_call(std::uint32_t record, std::uint64_t stack_pointer, std::uint64_t ended);
  void settle_call();
  void settle_call_before(bool enters, std::uint64_t slot);
  void end_way();
  const Live* innermost(std::uint64_t stack_pointer) const;
  void add_device_call(const Event& event);
  void add_activity(const Event& event);
  std::uint32_t forward_of(const Event& node) const;

  SharedCounts& shared_;
  const std::uint32_t number_;
  CallTreeRules rules_;
  bool rules_current_ = true;  // True if the state of the rules is that of `now_`.
  TreeStates tree_states_;
  std::size_t cache_bytes_ = 0;  // As included in SharedCounts::cache_bytes.
  std::uint32_t now_ = 0;        // Number of the state, or kUnnumbered.
  LiveFrames native_, python_;
  std::vector<EnteredFrame> entered_;  // The new frames of the last outcome_of().
  std::vector<OpenOp> open_ops_;
  bool counting_ = true;          // True if the live selected op is within skip and count.
  bool depends_on_time_ = false;  // The outcome must not be cached.
  std::uint32_t caused_by_ = kNone;
  std::optional<CallOnItsWay> call_on_its_way_;
  // The entry of a region's body, held back until its argument comes.
  std::optional<std::pair<Event, EventKey>> body_on_its_way_;
  std::optional<std::uint64_t> region_data_;  // That argument.
  std::uint64_t near_ = 0;                    // A recent stack address.
};

}  // namespace optrace
