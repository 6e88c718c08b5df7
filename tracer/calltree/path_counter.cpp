#include "tracer/calltree/path_counter.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

#include "platform/blocks.h"
#include "platform/glob.h"
#include "tracer/calltree/transition_cache.h"

namespace optrace {
namespace {

constexpr std::uint64_t kUncounted = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kNoSequence = std::numeric_limits<std::uint64_t>::max();
// Selects the thread number in return_address.
constexpr std::uint64_t kThreadNumber =
    0xFFFF'FFFF;  // Of an op's event: the other half is a place.

// How far a worker's events may precede those of the thread that opened its region, if the
// arguments of the region's functions are not recorded.
constexpr std::uint64_t kRegionPatience = 2'000'000;  // In nanoseconds.
constexpr std::size_t kKeptRegionEntries = 64;
constexpr std::size_t kKeptRegions = 1 << 16;

// Forward ops are kept by sequence number, in two generations of at most this size.
constexpr std::size_t kRememberedOps = 1 << 19;

// Calls that started work on the device are kept in two generations of at most this size.
constexpr std::size_t kRememberedCalls = 1 << 18;

// A thread's cache is dropped when it takes more than this.
constexpr std::size_t kMaxRemembered = 64 << 20;  // In bytes.

// Situations with more frames are not cached: each takes space for all its frames.
constexpr std::size_t kDeepest = 500;

// The selection's decisions for the calls in a "..." frame: bits in the `line` of its path.
constexpr std::uint32_t kChosen = 1, kInOp = 2, kInModule = 4;

// Instead of a situation's number: only the rules have its state.
constexpr std::uint32_t kTooDeep = kNone;

// Code that runs once (imports) never repeats a situation. If more than half of kJudged events had
// no cached outcome, the next events bypass the cache: kShortestRest at first, then twice as many
// each time, up to kMaxRestLength.
constexpr std::uint32_t kJudged = 512;
constexpr std::uint32_t kShortestRest = 2048;
constexpr std::uint32_t kMaxRestLength = 65'536;

// Deeper recursion is merged: nobody reads that far, and memory is limited.
constexpr std::uint32_t kMaxPathDepth = 10'000;

// Bytes that a path takes here, in the trace, and in the report, where its frame takes most.
constexpr std::size_t kBytesPerPath = 1536;

// Identifies a path among those with the same parent. Contains all its data but the counts.
struct PathKey {
  std::uint32_t parent;
  std::uint32_t what;
  std::uint32_t line;
  std::uint32_t builtin;
  std::uint32_t caused_by;
  std::uint32_t kind_and_jump;
  std::uint32_t thread;  // Roots only.
  bool operator==(const PathKey&) const = default;

  PathKind kind() const { return static_cast<PathKind>(kind_and_jump / 2); }
  bool is_tail_call() const { return kind_and_jump % 2 != 0; }
};

std::uint32_t kind_and_jump(PathKind kind, bool jump) {
  return static_cast<std::uint32_t>(kind) * 2 + (jump ? 1U : 0U);
}

template <typename Key>
struct HashBytes {
  static_assert(std::has_unique_object_representations_v<Key>);
  std::size_t operator()(const Key& key) const { return XXH3_64bits(&key, sizeof key); }
};

std::uint32_t changed_statistics(const CallTreeStatistics& before,
                                 const CallTreeStatistics& after) {
  std::uint32_t changed = 0;
  for (std::size_t i = 0; i < std::size(kCallTreeStatistics); ++i)
    if (before.*kCallTreeStatistics[i] != after.*kCallTreeStatistics[i]) changed |= 1U << i;
  return changed;
}

void count_again(std::uint32_t changed, CallTreeStatistics& statistics) {
  for (; changed != 0; changed &= changed - 1)
    ++(statistics.*kCallTreeStatistics[std::countr_zero(changed)]);
}

std::uint64_t hash_of(const CallTreeRules::State& state) {
  std::uint64_t hash = XXH3_64bits(&state.outer_builtin, sizeof state.outer_builtin);
  hash ^= state.outer_line;
  const auto mix = [&hash](std::uint64_t value) {
    hash = (hash ^ value) * 0xFF51AFD7ED558CCDU;
    hash ^= hash >> 32;
  };
  for (const CallTreeRules::LiveFrame& frame : state.native) {
    mix(frame.node | std::uint64_t{frame.function} << 32);
    mix(frame.stack_pointer);
    mix(frame.return_address);
    mix(frame.innermost_python | std::uint64_t{frame.called} << 32);
    mix((frame.initial ? 1U : 0U) | (frame.python_ended ? 2U : 0U) | (frame.doubtful ? 4U : 0U) |
        (frame.op_begun ? 8U : 0U) | (frame.left ? 16U : 0U));
  }
  for (const CallTreeRules::LivePython& frame : state.python) {
    mix(frame.node | std::uint64_t{frame.what} << 32);
    mix(frame.height | std::uint64_t{frame.in_loop} << 63);
    mix(frame.outside | std::uint64_t{frame.builtin.what} << 32);
    mix(frame.builtin.line | std::uint64_t{frame.step} << 32);
    mix(frame.place);
    mix(frame.line);
  }
  mix(state.asserted);
  return hash;
}

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

// `torch.nn.modules` is in `torch.nn`, and in itself.
bool is_in_module(std::string_view name, std::string_view module) {
  return name.starts_with(module) && (name.size() == module.size() || name[module.size()] == '.');
}

}  // namespace

struct PathCounter::State {
  // The counts of a path and its properties, in one cache line.
  struct alignas(64) Usage {
    std::uint64_t calls = 0;
    std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
    std::uint32_t first_thread = kNone, last_thread = kNone;
    std::uint32_t thread_count = 1;
    std::uint32_t root = kNone;     // The outermost path above it, or itself.
    std::uint32_t depth = 0;        // Number of paths above it.
    std::uint32_t tallies = kNone;  // Index into State::tallies.
    bool chosen = false;            // Selected, or inside a selected call.
    bool chosen_op = false;         // An outermost selected op call.
    bool in_op = false;             // A selected op call, or inside one.
    bool in_module = false;         // Inside the selected module.
    // Its function is the body of the parallel region that its parent opens.
    bool opens = false;
  };
  static_assert(sizeof(Usage) == 64);

  // Data that few paths have.
  struct Tallies {
    std::vector<OpTally> ops{};
    std::vector<ArgumentTally> arguments{};
    std::uint64_t ops_left_out = 0;
    std::vector<ActivityTally> activities{};
    std::uint64_t activities_left_out = 0;
  };

  struct RegionEntry {
    std::uint64_t time;
    std::uint32_t thread;
    std::uint32_t path;
  };

  // The last region opened with a certain pointer to its threads' shared data.
  struct Region {
    std::uint32_t path;    // Path of the function that opened it.
    std::uint32_t thread;  // Thread that opened it.
    bool counting;         // True if that thread was counting.
  };

  // An op that has not ended. There is one for each op in the state of the rules.
  struct OpenOp {
    std::size_t height;  // Number of Python frames, including the op.
    std::uint32_t path;  // Path that its record belongs to.
    std::uint32_t record;
    bool counted;
  };

  struct Live {
    std::uint32_t path = kNone;
    std::uint64_t start = kUncounted;
    std::uint64_t end = 0;  // Recorded end; 0 if only the next event bounds it.
  };

  // A call_record whose function may be entered next.
  struct CallOnItsWay {
    Event event;
    // The path that the record belongs to if its function is not entered; kNone if it is not
    // counted.
    std::uint32_t caller = kNone;
  };

  struct Thread : CallTreeRules::Nodes {
    Thread(State& owner, std::uint32_t index)
        : all(owner), number(index), rules(owner.functions, *this) {
      situations.emplace_back();
      interned.emplace(hash_of(situations[0]), 0);
    }

    std::uint32_t add(const CallTreeRules::Node& node, const Event* event) override {
      return all.path_of(*this, node, event);
    }

    const CallTreeRules::State& state() const {
      return now == kTooDeep ? rules.state() : situations[now];
    }

    State& all;
    std::uint32_t number;
    CallTreeRules rules;
    bool rules_current = true;  // True if the state of the rules is situations[now].
    std::vector<CallTreeRules::State> situations;
    std::unordered_multimap<std::uint64_t, std::uint32_t> interned;  // By hash of the state.
    std::size_t situation_bytes = 0;
    std::size_t remembered = 0;  // As included in State::memories.
    TransitionCache memory;
    std::uint32_t now = 0;
    std::uint32_t found = 0, missed = 0;      // Recent events with and without a cached outcome.
    std::uint32_t rest = 0;                   // Events that bypass the cache.
    std::uint32_t next_rest = kShortestRest;  // The next value of `rest`.
    std::vector<Live> native, python;
    std::vector<OpenOp> open_ops;
    bool counting = true;          // True if the live selected op is within skip and count.
    bool depends_on_time = false;  // The outcome must not be cached.
    std::uint32_t caused_by = kNone;
    std::optional<CallOnItsWay> call_on_its_way;
    // The entry of a region's body, held back until its argument comes.
    std::optional<std::pair<Event, EventKey>> body_on_its_way;
    std::optional<std::uint64_t> region_data;  // That argument.
    std::uint64_t near = 0;                    // A recent stack address.
  };

  State(const PathFunctions& path_functions, TraceSelection wanted,
        std::shared_ptr<MemoryBudget> memory)
      : functions(path_functions),
        selection(std::move(wanted)),
        everything(selection.everything()),
        budget(std::move(memory)) {
    if (!selection.ops.empty()) {
      pattern = unambiguous_name(selection.ops);
      if (const std::size_t scope = selection.ops.find("::"); scope != std::string::npos)
        scope_pattern = selection.ops.substr(0, scope);
    }
  }

  static bool is_plumbing(const PathKey& path) {
    return path.kind() == PathKind::function && path.what == kNone;
  }
  std::uint32_t path_of(Thread& thread, const CallTreeRules::Node& node, const Event* event);
  std::uint32_t add_path(const PathKey& key, std::uint32_t thread);
  bool is_merged(std::uint32_t path) const;
  std::uint32_t add_merged(const PathKey& key, std::uint32_t thread);
  std::uint32_t insert(const PathKey& key);
  std::uint32_t& slot_of(const PathKey& key);
  void grow_slots();
  bool has_room_below(std::uint32_t parent) const;
  Tallies& tallies_of(std::uint32_t path);
  Usage choose(const PathKey& path) const;
  TracePath trace_path(std::uint32_t path, bool is_merged);
  std::vector<TracePath> take_paths();
  void join_region(Thread& thread, const Event& event, PathKey& path);
  const RegionEntry* opened_region(std::uint32_t body, std::uint32_t thread,
                                   std::uint64_t time) const;
  void enter(Thread& thread, Live& live, std::uint32_t path, std::uint64_t time);
  void leave(const Live& live, std::uint64_t time);
  bool repeats(const CallTreeRules::State& state, std::size_t native) const;
  Outcome outcome_of(Thread& thread, const CallTreeRules::Kept& kept);
  void enter_all(Thread& thread, const Outcome& outcome, std::uint64_t time);
  void move_to(Thread& thread, const Outcome& outcome, std::uint64_t time);
  std::uint32_t intern(Thread& thread, const CallTreeRules::State& state);
  bool repeat(Thread& thread, const TransitionKey& situation, std::uint64_t time);
  void forget(Thread& thread);
  static void judge(Thread& thread);
  void apply(Thread& thread, const Event& event, const EventKey& key);
  void begin_op(Thread& thread, const Event& event, const EventKey& key);
  void end_op(Thread& thread, const Event& event, const EventKey& key);
  void close_op(Thread& thread, std::uint32_t results);
  Live& live_of(Thread& thread, const CallTreeRules::LivePython& op, std::size_t height);
  void tally(std::uint32_t path, std::uint32_t record, std::uint32_t results);
  void note_arguments(Thread& thread, const Event& event);
  void enter_body(Thread& thread, const Event& next);
  void add_step(Thread& thread, const Event& event, const EventKey& key);
  void note_call(Thread& thread, const Event& event);
  void settle_call(Thread& thread);
  void end_way(Thread& thread);
  static const Live* innermost(const Thread& thread, std::uint64_t stack_pointer);
  void note_device_call(const Thread& thread, const Event& event);
  void note_activity(const Event& event);
  void remember_op(std::uint64_t thread, std::uint64_t sequence, std::uint32_t path);
  std::uint32_t forward_of(std::uint64_t thread, std::uint64_t sequence) const;
  bool wants(std::string_view step_name, std::string_view op) const;

  const PathFunctions& functions;
  const TraceSelection selection;
  const bool everything;
  std::string pattern;        // For ops, as at::_ops names them.
  std::string scope_pattern;  // For their namespace; empty: any.
  const std::shared_ptr<MemoryBudget> budget;
  Blocks<PathKey> paths;
  Blocks<Usage> usages;              // Parallel to `paths`.
  std::deque<Tallies> tallies;       // For some paths.
  std::vector<std::uint32_t> slots;  // Paths by key: open addressing, half full at most.
  std::size_t memories = 0;          // Bytes of the caches of all threads.
  // True if some function below a "..." frame had no room.
  bool functions_left_out = false;
  std::uint64_t merged = 0, unnamed = 0;  // Calls in "..." frames, and those without a function.
  std::vector<std::unique_ptr<Thread>> threads;
  std::unordered_map<std::uint32_t, std::vector<RegionEntry>> regions;  // By the body's function.
  std::unordered_map<std::uint64_t, Region> open_regions;  // By the pointer to the shared data.
  // path << 32 | thread, for paths of several threads.
  std::unordered_set<std::uint64_t> shared;
  struct OpKey {
    std::uint64_t thread, sequence;
    bool operator==(const OpKey&) const = default;
  };
  using ForwardOps = std::unordered_map<OpKey, std::uint32_t, HashBytes<OpKey>>;
  ForwardOps young, old;
  // The caller's path, by the number of the call that started work on the device; kNone if it is
  // not counted.
  std::unordered_map<std::uint64_t, std::uint32_t> young_calls, old_calls;
  // Index into the activities of a path, by path << 32 | record.
  std::unordered_map<std::uint64_t, std::size_t> activity_places;
  std::uint64_t untied = 0;
  std::uint64_t op_calls = 0;
};

bool PathCounter::State::wants(std::string_view step_name, std::string_view op) const {
  if (!scope_pattern.empty()) {
    const std::size_t scope = op.find("::");
    // at::_ops contains aten's ops, and a step without a record has no other name.
    const std::string_view space = scope == std::string_view::npos ? "aten" : op.substr(0, scope);
    if (!matches_glob(space, scope_pattern)) return false;
  }
  // `add` matches all its overloads.
  return matches_glob(step_name, pattern) ||
         (!op.empty() && matches_glob(unambiguous_name(op.substr(0, op.rfind('.'))), pattern));
}

// Applies the selection to a path. The result depends on the path above it, and for an autograd
// node also on the op that created it.
PathCounter::State::Usage PathCounter::State::choose(const PathKey& path) const {
  Usage chosen;
  if (path.parent != kNone) {
    chosen.root = usages[path.parent].root;
    chosen.depth = usages[path.parent].depth + 1;
  }
  const bool only_module = selection.ops.empty() && selection.skip == 0 && selection.count == 0;
  if (path.kind() == PathKind::merged) {
    chosen.in_op = (path.line & kInOp) != 0;
    chosen.in_module = (path.line & kInModule) != 0;
    chosen.chosen = (path.line & kChosen) != 0 || (only_module && chosen.in_module);
    return chosen;
  }
  for (const std::uint32_t from : {path.parent, path.caused_by}) {
    if (from == kNone) continue;
    chosen.chosen = chosen.chosen || usages[from].chosen;
    chosen.in_op = chosen.in_op || usages[from].in_op;
    chosen.in_module = chosen.in_module || usages[from].in_module;
  }
  chosen.in_module = chosen.in_module || selection.from_module.empty() ||
                     (path.kind() == PathKind::python &&
                      is_in_module(functions.python_name(path.what), selection.from_module));
  const bool is_op = path.kind() == PathKind::op;
  const bool is_step =
      path.kind() == PathKind::function && path.what != kNone && functions.role(path.what).op_call;
  if ((is_op || is_step) && chosen.in_module && !chosen.in_op) {
    const std::string_view op = is_op ? functions.op_name(path.what) : std::string_view();
    const std::string name =
        is_op ? unambiguous_name(op) : std::string(functions.role(path.what).op);
    chosen.chosen_op = selection.ops.empty() || (!name.empty() && wants(name, op));
    chosen.in_op = chosen.chosen_op;
  }
  chosen.chosen = chosen.chosen || chosen.chosen_op || (only_module && chosen.in_module);
  if (path.kind() == PathKind::function && path.what != kNone && path.parent != kNone) {
    const PathKey& parent = paths[path.parent];
    chosen.opens = parent.kind() == PathKind::function && parent.what != kNone &&
                   functions.role(parent.what).opens_region;
  }
  return chosen;
}

// Returns the slot of the path, or the free one for it.
std::uint32_t& PathCounter::State::slot_of(const PathKey& key) {
  std::size_t at = HashBytes<PathKey>()(key) & (slots.size() - 1);
  while (slots[at] != kNone && !(paths[slots[at]] == key)) at = (at + 1) & (slots.size() - 1);
  return slots[at];
}

void PathCounter::State::grow_slots() {
  constexpr std::size_t kSmallest = 1024;
  slots.assign(std::max(slots.size() * 2, kSmallest), kNone);
  for (std::uint32_t path = 0; path < paths.size(); ++path) slot_of(paths[path]) = path;
}

// Adds the path with this key, which must be new.
std::uint32_t PathCounter::State::insert(const PathKey& key) {
  const auto path = static_cast<std::uint32_t>(paths.size());
  slot_of(key) = path;
  usages.push_back(choose(key));
  if (key.parent == kNone) usages[path].root = path;
  paths.push_back(key);
  budget->take(kBytesPerPath);
  return path;
}

bool PathCounter::State::has_room_below(std::uint32_t parent) const {
  if (parent == kNone) return budget->has_room();
  return paths[parent].kind() != PathKind::merged && !is_merged(parent) &&
         usages[parent].depth < kMaxPathDepth && budget->has_room();
}

// Returns true if the path is counted by its function alone.
bool PathCounter::State::is_merged(std::uint32_t path) const {
  return paths[path].parent != kNone && paths[paths[path].parent].kind() == PathKind::merged;
}

std::uint32_t PathCounter::State::add_path(const PathKey& key, std::uint32_t thread) {
  if ((paths.size() + 1) * 2 > slots.size()) grow_slots();
  if (const std::uint32_t known = slot_of(key); known != kNone) return known;
  return has_room_below(key.parent) ? insert(key) : add_merged(key, thread);
}

// Counts a path without room by its function alone, below a "..." frame. That frame is below the
// path's root or, if the path is too deep, below the last path that is not. The selection stays
// exact: there is a "..." frame for each combination of its decisions.
std::uint32_t PathCounter::State::add_merged(const PathKey& key, std::uint32_t thread) {
  std::uint32_t above = key.parent;
  std::uint32_t flags = selection.from_module.empty() ? kInModule : 0;
  for (const std::uint32_t from : {key.parent, key.caused_by}) {
    if (from == kNone) continue;
    flags |= (usages[from].chosen ? kChosen : 0) | (usages[from].in_op ? kInOp : 0) |
             (usages[from].in_module ? kInModule : 0);
  }
  if (above != kNone) {
    if (is_merged(above)) above = paths[above].parent;
    if (paths[above].kind() == PathKind::merged)
      above = paths[above].parent;
    else if (usages[above].depth < kMaxPathDepth)
      above = usages[above].root;
  }
  const PathKey group{.parent = above,
                      .what = kNone,
                      .line = flags,
                      .builtin = kNone,
                      .caused_by = kNone,
                      .kind_and_jump = kind_and_jump(PathKind::merged, false),
                      .thread = above == kNone ? thread : 0};
  std::uint32_t place = slot_of(group);
  if (place == kNone) place = insert(group);
  if ((paths.size() + 1) * 2 > slots.size()) grow_slots();
  PathKey alone = key;
  alone.parent = place;
  alone.line = 0;
  alone.caused_by = kNone;
  alone.kind_and_jump = kind_and_jump(key.kind(), false);
  alone.thread = 0;
  if (const std::uint32_t known = slot_of(alone); known != kNone) return known;
  if (budget->has_room_for_merged()) return insert(alone);
  functions_left_out = true;
  return place;
}

std::uint32_t PathCounter::State::path_of(Thread& thread, const CallTreeRules::Node& node,
                                          const Event* event) {
  bool jump = node.tail_call;
  std::uint32_t what = node.what;
  if (node.kind == PathKind::function && functions.is_plumbing(node.what)) {
    if (node.shown_under != kNone && is_plumbing(paths[node.shown_under])) return node.shown_under;
    what = kNone;
    jump = false;
  }
  PathKey key{.parent = node.shown_under,
              .what = what,
              .line = node.line,
              .builtin = node.builtin,
              .caused_by = node.kind == PathKind::node ? thread.caused_by : kNone,
              .kind_and_jump = kind_and_jump(node.kind, jump),
              .thread = 0};
  if (event != nullptr && node.kind == PathKind::function && what != kNone &&
      (functions.role(what).region_body || regions.contains(what)))
    join_region(thread, *event, key);
  if (key.parent == kNone) key.thread = thread.number;
  return add_path(key, thread.number);
}

// Puts a worker of an OpenMP region below the call that opened the region, as the opening thread
// is. Both have the pointer to the threads' shared data, which lies on the stack of the opening
// thread. That thread waits for the workers, so the pointer identifies one region at a time.
void PathCounter::State::join_region(Thread& thread, const Event& event, PathKey& path) {
  const auto take_jump = [&path](bool jump) {
    path.kind_and_jump = kind_and_jump(path.kind(), jump);
  };
  if (path.parent != kNone && paths[path.parent].what != kNone &&
      paths[path.parent].kind() == PathKind::function &&
      functions.role(paths[path.parent].what).opens_region)
    return;
  const auto opened =
      thread.region_data ? open_regions.find(*thread.region_data) : open_regions.end();
  if (opened != open_regions.end()) {
    thread.depends_on_time = true;
    thread.counting = opened->second.counting;
    path.parent = opened->second.path;
    take_jump(false);
    path.line = 0;
    path.builtin = kNone;
    return;
  }
  if (path.parent != kNone) return;
  thread.depends_on_time = true;
  const RegionEntry* const region = opened_region(path.what, thread.number, event.time);
  if (region == nullptr) return;
  const PathKey& entered = paths[region->path];
  path.parent = entered.parent;
  take_jump(entered.is_tail_call());
  path.line = entered.line;
  path.builtin = entered.builtin;
}

// Used if the pointer to the shared data is not recorded. Workers start with the region's function,
// and the thread that opened the region enters it slightly earlier or later. Returns the region's
// entry that is nearest in time.
const PathCounter::State::RegionEntry* PathCounter::State::opened_region(std::uint32_t body,
                                                                         std::uint32_t thread,
                                                                         std::uint64_t time) const {
  const auto found = regions.find(body);
  if (found == regions.end()) return nullptr;
  const RegionEntry* nearest = nullptr;
  std::uint64_t distance = 0;
  for (const RegionEntry& entry : found->second) {
    if (entry.thread == thread) continue;
    const std::uint64_t apart = entry.time < time ? time - entry.time : entry.time - time;
    if (nearest != nullptr && apart >= distance) continue;
    nearest = &entry;
    distance = apart;
  }
  return nearest;
}

void PathCounter::State::enter(Thread& thread, Live& live, std::uint32_t path, std::uint64_t time) {
  Usage& entered = usages[path];
  live = {.path = path};
  if (entered.opens) {
    std::vector<RegionEntry>& entries = regions[paths[path].what];
    if (entries.size() == kKeptRegionEntries) entries.erase(entries.begin());
    entries.push_back({time, thread.number, path});
  }
  if (entered.chosen_op) {
    const std::uint64_t number = op_calls++;
    thread.counting = number >= selection.skip &&
                      (selection.count == 0 || number < selection.skip + selection.count);
  }
  if (!entered.chosen || (!thread.counting && !everything)) return;
  live.start = time;
  ++entered.calls;
  if (entered.first_thread == kNone) entered.first_thread = entered.last_thread = thread.number;
  if (entered.last_thread != thread.number) {
    shared.insert(std::uint64_t{path} << 32 | entered.first_thread);
    if (shared.insert(std::uint64_t{path} << 32 | thread.number).second) ++entered.thread_count;
    entered.last_thread = thread.number;
  }
}

void PathCounter::State::leave(const Live& live, std::uint64_t time) {
  if (live.start == kUncounted) return;
  Usage& ended = usages[live.path];
  const std::uint64_t end = live.end != 0 ? live.end : time;
  const std::uint64_t took = end > live.start ? end - live.start : 0;
  ended.shortest_time =
      ended.total_time == 0 && ended.longest_time == 0 ? took : std::min(ended.shortest_time, took);
  ended.longest_time = std::max(ended.longest_time, took);
  ended.total_time += took;
}

// Returns the number of the situation, or kTooDeep.
std::uint32_t PathCounter::State::intern(Thread& thread, const CallTreeRules::State& state) {
  if (thread.rest != 0 || state.native.size() + state.python.size() > kDeepest) return kTooDeep;
  const std::uint64_t hash = hash_of(state);
  const auto [first, last] = thread.interned.equal_range(hash);
  for (auto it = first; it != last; ++it)
    if (thread.situations[it->second] == state) return it->second;
  constexpr std::size_t kInterned = 64;  // Size of an entry of `interned` and its bucket.
  thread.situation_bytes += sizeof(CallTreeRules::State) + kInterned +
                            state.native.size() * sizeof(CallTreeRules::LiveFrame) +
                            state.python.size() * sizeof(CallTreeRules::LivePython);
  const auto index = static_cast<std::uint32_t>(thread.situations.size());
  thread.situations.push_back(state);
  thread.interned.emplace(hash, index);
  return index;
}

// Counts an event without a cached outcome, and decides whether the next events bypass the cache.
void PathCounter::State::judge(Thread& thread) {
  if (thread.rest != 0) {
    --thread.rest;
    return;
  }
  ++thread.missed;
  if (thread.found + thread.missed < kJudged) return;
  if (thread.missed > thread.found) {
    thread.rest = thread.next_rest;
    thread.next_rest = std::min(thread.next_rest * 2, kMaxRestLength);
  } else {
    thread.next_rest = kShortestRest;
  }
  thread.found = thread.missed = 0;
}

// Applies the cached outcome of the situation. Returns false if there is none.
bool PathCounter::State::repeat(Thread& thread, const TransitionKey& situation,
                                std::uint64_t time) {
  if (thread.now == kTooDeep) return false;
  const Outcome* const remembered = thread.memory.find(situation);
  if (remembered == nullptr) return false;
  thread.rules_current = false;
  ++thread.found;
  if (remembered->rules != 0) count_again(remembered->rules, thread.rules.statistics());
  move_to(thread, *remembered, time);
  return true;
}

// Drops all cached situations but the current one.
void PathCounter::State::forget(Thread& thread) {
  thread.memory = {};
  thread.interned.clear();
  thread.situation_bytes = 0;
  memories -= std::exchange(thread.remembered, 0);
  std::vector<CallTreeRules::State> now;
  if (thread.now != kTooDeep) {
    now.push_back(std::move(thread.situations[thread.now]));
    thread.interned.emplace(hash_of(now[0]), 0);
    thread.now = 0;
  }
  thread.situations = std::move(now);
}

// Returns true if the frame continues its caller's path. A path that stands for several frames is
// entered once, with the first.
bool PathCounter::State::repeats(const CallTreeRules::State& state, std::size_t native) const {
  return native > 0 && state.native[native - 1].node == state.native[native].node &&
         is_plumbing(paths[state.native[native].node]);
}

// Applies an event: its cached outcome if there is one, else the rules.
void PathCounter::State::apply(Thread& thread, const Event& event, const EventKey& key) {
  const TransitionKey situation{thread.now, key};
  const bool enters = event.kind != EventKind::caller;
  if (repeat(thread, situation, event.time)) {
    if (enters) end_way(thread);
    return;
  }
  if (!thread.rules_current) thread.rules.set_state(thread.state());
  thread.rules_current = true;
  const bool deep = thread.now == kTooDeep;
  judge(thread);
  thread.depends_on_time = false;
  thread.rules.take_kept();
  const CallTreeStatistics before = thread.rules.statistics();
  thread.rules.add(event);
  Outcome outcome = outcome_of(thread, thread.rules.take_kept());
  outcome.rules = changed_statistics(before, thread.rules.statistics());
  if (!thread.depends_on_time && !deep && outcome.state != kTooDeep)
    thread.memory.add(situation, outcome);
  move_to(thread, outcome, event.time);
  if (enters) end_way(thread);
  const std::size_t bytes = thread.situation_bytes + thread.memory.bytes();
  memories += bytes - thread.remembered;
  thread.remembered = bytes;
  if (bytes > kMaxRemembered || memories > budget->for_memories()) forget(thread);
}

// Returns the effect of an event after which `kept` frames are still live.
Outcome PathCounter::State::outcome_of(Thread& thread, const CallTreeRules::Kept& kept) {
  const CallTreeRules::State& after = thread.rules.state();
  Outcome outcome{.state = intern(thread, after),
                  .kept_native = static_cast<std::uint32_t>(kept.native),
                  .kept_python = static_cast<std::uint32_t>(kept.python),
                  .native = static_cast<std::uint32_t>(after.native.size()),
                  .python = static_cast<std::uint32_t>(after.python.size())};
  const bool one =
      outcome.native == outcome.kept_native + 1 && outcome.python == outcome.kept_python;
  if (one && !repeats(after, kept.native)) outcome.entered = after.native.back().node;
  return outcome;
}

void PathCounter::State::enter_all(Thread& thread, const Outcome& outcome, std::uint64_t time) {
  const CallTreeRules::State& after = thread.state();
  for (std::size_t i = outcome.kept_native; i < after.native.size(); ++i) {
    if (repeats(after, i))
      thread.native[i] = {.path = after.native[i].node};
    else
      enter(thread, thread.native[i], after.native[i].node, time);
  }
  for (std::size_t i = outcome.kept_python; i < after.python.size(); ++i) {
    if (after.python[i].is_frame)
      enter(thread, thread.python[i], after.python[i].node, time);
    else
      thread.python[i] = {.path = after.python[i].node};
  }
}

// Ends the frames that are not kept, and enters the new ones.
void PathCounter::State::move_to(Thread& thread, const Outcome& outcome, std::uint64_t time) {
  while (!thread.open_ops.empty() && thread.open_ops.back().height > outcome.kept_python)
    close_op(thread, 0);  // Its end was not recorded.
  for (std::size_t i = thread.native.size(); i > outcome.kept_native; --i)
    leave(thread.native[i - 1], time);
  for (std::size_t i = thread.python.size(); i > outcome.kept_python; --i)
    leave(thread.python[i - 1], time);
  thread.now = outcome.state;
  thread.native.resize(outcome.native);
  thread.python.resize(outcome.python);
  if (outcome.entered != kNone)
    enter(thread, thread.native.back(), outcome.entered, time);
  else if (outcome.native > outcome.kept_native || outcome.python > outcome.kept_python)
    enter_all(thread, outcome, time);
}

PathCounter::State::Tallies& PathCounter::State::tallies_of(std::uint32_t path) {
  std::uint32_t& place = usages[path].tallies;
  if (place == kNone) {
    place = static_cast<std::uint32_t>(tallies.size());
    tallies.emplace_back();
  }
  return tallies[place];
}

void PathCounter::State::tally(std::uint32_t path, std::uint32_t record, std::uint32_t results) {
  // Calls that are counted without a function don't belong to one op.
  if (path == kNone || paths[path].kind() == PathKind::merged) return;
  Tallies& of = tallies_of(path);
  for (OpTally& known : of.ops) {
    if (known.record == record && known.results == results) {
      ++known.calls;
      return;
    }
  }
  if (of.ops.size() < kMaxTallies)
    of.ops.push_back({record, results, 1});
  else
    ++of.ops_left_out;
}

// Returns the frame that has the op's times: its step's, its own, or one that is not counted.
PathCounter::State::Live& PathCounter::State::live_of(Thread& thread,
                                                      const CallTreeRules::LivePython& op,
                                                      std::size_t height) {
  return op.step != 0 ? thread.native[op.step - 1] : thread.python[height - 1];
}

void PathCounter::State::begin_op(Thread& thread, const Event& event, const EventKey& key) {
  const Event place = placed(event, thread.near);
  const std::uint32_t op = functions.op_of(event.what);
  // A record is identified by its op, if it has one.
  const bool is_op = op != kNone;
  apply(thread, place, {key.id, is_op ? op : event.what, place.stack_pointer, is_op ? 1U : 0U});
  const std::size_t height = thread.state().python.size();
  const CallTreeRules::LivePython& begun = thread.state().python[height - 1];
  const Live& live = live_of(thread, begun, height);
  const bool is_frame = begun.is_frame || begun.step != 0;
  OpenOp opened{height, is_frame ? live.path : begun.node, event.what, false};
  opened.counted =
      is_frame ? live.start != kUncounted : opened.path != kNone && usages[opened.path].chosen;
  if (event.stack_pointer != kNoSequence && opened.path != kNone)
    remember_op(event.return_address & kThreadNumber, event.stack_pointer, opened.path);
  thread.open_ops.push_back(opened);
}

// Closes the innermost open op.
void PathCounter::State::close_op(Thread& thread, std::uint32_t results) {
  const OpenOp& closed = thread.open_ops.back();
  if (closed.counted) tally(closed.path, closed.record, results);
  thread.open_ops.pop_back();
}

void PathCounter::State::end_op(Thread& thread, const Event& event, const EventKey& key) {
  const Event place = placed(event, thread.near);
  const std::optional<std::size_t> ending = CallTreeRules::op_that_ends(thread.state(), place);
  if (!ending) return;
  std::vector<OpenOp>& open = thread.open_ops;
  while (!open.empty() && open.back().height > *ending + 1) close_op(thread, 0);
  live_of(thread, thread.state().python[*ending], *ending + 1).end = event.time;
  if (!open.empty() && open.back().height == *ending + 1) close_op(thread, event.what);
  apply(thread, place, {key.id, 0, place.stack_pointer, 0});
}

void PathCounter::State::note_arguments(Thread& thread, const Event& event) {
  const CallTreeRules::State& state = thread.state();
  for (std::size_t i = state.native.size(); i > 0; --i) {
    const CallTreeRules::LiveFrame& frame = state.native[i - 1];
    if (static_cast<std::uint32_t>(frame.stack_pointer) != event.line) continue;
    if (frame.function != kNone && functions.role(frame.function).region_data) {
      if (open_regions.size() >= kKeptRegions) open_regions.clear();
      if (functions.role(frame.function).opens_region)
        open_regions[event.return_address] = {frame.node, thread.number, thread.counting};
      return;
    }
    if (thread.native[i - 1].start == kUncounted) return;
    if (paths[frame.node].kind() == PathKind::merged) return;
    Tallies& path = tallies_of(frame.node);
    for (ArgumentTally& known : path.arguments) {
      // A hidden pointer to the result differs from call to call; the key set does not.
      if (known.second == event.return_address || known.first == event.stack_pointer) {
        ++known.calls;
        return;
      }
    }
    if (path.arguments.size() < kMaxTallies)
      path.arguments.push_back({event.stack_pointer, event.return_address, 1});
    return;
  }
}

void PathCounter::State::note_call(Thread& thread, const Event& event) {
  settle_call(thread);
  if (event.stack_pointer != 0) {
    const Live* const caller = innermost(thread, event.stack_pointer);
    const bool counted = caller != nullptr && caller->start != kUncounted;
    thread.call_on_its_way = {event, counted ? caller->path : kNone};
    return;
  }
  if (thread.native.empty() || thread.native.back().start == kUncounted) return;
  tally(thread.native.back().path, event.what, 0);
}

// A call_record whose function is not entered belongs to its caller.
void PathCounter::State::settle_call(Thread& thread) {
  if (!thread.call_on_its_way) return;
  const CallOnItsWay call = *thread.call_on_its_way;
  thread.call_on_its_way.reset();
  tally(call.caller, call.event.what, 0);
}

// Assigns the pending call_record to the entry in its return slot, which has just been counted.
void PathCounter::State::end_way(Thread& thread) {
  if (!thread.call_on_its_way) return;
  const Event event = thread.call_on_its_way->event;
  thread.call_on_its_way.reset();
  if (thread.native.empty() || thread.native.back().start == kUncounted) return;
  tally(thread.native.back().path, event.what, 0);
}

// Returns the innermost frame that has not ended when the stack reaches down to `stack_pointer`.
// (The end of a function is not recorded.)
const PathCounter::State::Live* PathCounter::State::innermost(const Thread& thread,
                                                              std::uint64_t stack_pointer) {
  const CallTreeRules::State& state = thread.state();
  std::size_t height = state.native.size();
  while (height > 0 && state.native[height - 1].stack_pointer <= stack_pointer) --height;
  if (!state.python.empty() && state.python.back().height >= height) return &thread.python.back();
  return height == 0 ? nullptr : &thread.native[height - 1];
}

void PathCounter::State::note_device_call(const Thread& thread, const Event& event) {
  const Live* const caller = innermost(thread, event.stack_pointer);
  if (caller == nullptr && everything) return;
  if (young_calls.size() >= kRememberedCalls) {
    old_calls = std::move(young_calls);
    young_calls.clear();
  }
  const bool counted = caller != nullptr && caller->start != kUncounted;
  young_calls[event.return_address] = counted ? caller->path : kNone;
}

void PathCounter::State::note_activity(const Event& event) {
  std::uint32_t path = kNone;
  bool known = false;
  for (const auto* const calls : {&young_calls, &old_calls}) {
    const auto found = calls->find(event.stack_pointer);
    if (found == calls->end()) continue;
    path = found->second;
    known = true;
    break;
  }
  if (!known) ++untied;
  if (path == kNone) return;
  Tallies& of = tallies_of(path);
  const auto [place, is_new] =
      activity_places.try_emplace(std::uint64_t{path} << 32 | event.what, of.activities.size());
  if (is_new && of.activities.size() == kMaxActivities) {
    activity_places.erase(place);
    ++of.activities_left_out;
    return;
  }
  const std::uint64_t took = event.return_address;
  if (is_new) of.activities.push_back({event.what, 0, 0, took, took});
  ActivityTally& tally = of.activities[place->second];
  ++tally.times;
  tally.total_time += took;
  tally.shortest_time = std::min(tally.shortest_time, took);
  tally.longest_time = std::max(tally.longest_time, took);
}

void PathCounter::State::remember_op(std::uint64_t thread, std::uint64_t sequence,
                                     std::uint32_t path) {
  if (young.size() >= kRememberedOps) {
    old = std::move(young);
    young.clear();
  }
  young[{thread, sequence}] = path;
}

std::uint32_t PathCounter::State::forward_of(std::uint64_t thread, std::uint64_t sequence) const {
  if (sequence == kNoSequence) return kNone;
  for (const ForwardOps* const known : {&young, &old})
    if (const auto found = known->find({thread, sequence}); found != known->end())
      return found->second;
  return kNone;
}

PathCounter::PathCounter(const PathFunctions& functions, TraceSelection selection,
                         std::shared_ptr<MemoryBudget> budget)
    : state_(
          std::make_unique<State>(functions, std::move(selection),
                                  budget ? std::move(budget) : std::make_shared<MemoryBudget>())) {}

PathCounter::~PathCounter() = default;

std::uint32_t PathCounter::add_thread() {
  const auto index = static_cast<std::uint32_t>(state_->threads.size());
  state_->threads.push_back(std::make_unique<State::Thread>(*state_, index));
  return index;
}

void PathCounter::add_initial(std::uint32_t index, const InitialFrame& frame) {
  State::Thread& thread = *state_->threads[index];
  thread.rules.take_kept();
  thread.rules.add_initial(frame);
  thread.near = frame.stack_pointer;
  state_->move_to(thread, state_->outcome_of(thread, {thread.native.size(), thread.python.size()}),
                  0);
}

void PathCounter::add(std::uint32_t index, const Event& event) {
  add(index, event, key_of(event));
}

void PathCounter::add(std::uint32_t index, const Event& event, const EventKey& key) {
  State::Thread& thread = *state_->threads[index];
  state_->enter_body(thread, event);
  switch (event.kind) {
    case EventKind::op_begin:
      state_->begin_op(thread, event, key);
      return;
    case EventKind::op_end:
      state_->end_op(thread, event, key);
      return;
    case EventKind::arguments:
      state_->note_arguments(thread, event);
      return;
    case EventKind::call_record:
      state_->note_call(thread, event);
      return;
    case EventKind::device_call:
      state_->note_device_call(thread, event);
      return;
    case EventKind::device_activity:
      state_->note_activity(event);
      return;
    case EventKind::function_entry:
      if (const FunctionRole& role = state_->functions.role(event.what);
          role.region_data && role.region_body) {
        thread.body_on_its_way = {event, key};
        return;
      }
      break;
    default:
      break;
  }
  state_->add_step(thread, event, key);
}

// Enters the region's body that was held back until `next`, which is its argument or another event.
void PathCounter::State::enter_body(Thread& thread, const Event& next) {
  if (!thread.body_on_its_way) return;
  const auto [event, key] = *thread.body_on_its_way;
  thread.body_on_its_way.reset();
  if (next.kind == EventKind::arguments &&
      next.line == static_cast<std::uint32_t>(event.stack_pointer))
    thread.region_data = next.stack_pointer;
  add_step(thread, event, key);
  thread.region_data.reset();
}

void PathCounter::State::add_step(Thread& thread, const Event& event, const EventKey& key) {
  if (thread.call_on_its_way && event.kind != EventKind::caller &&
      (event.kind != EventKind::function_entry ||
       event.stack_pointer != thread.call_on_its_way->event.stack_pointer))
    settle_call(thread);
  if (is_on_stack(event)) thread.near = event.stack_pointer;
  if (event.kind == EventKind::node_begin || event.kind == EventKind::node_end) {
    thread.caused_by = event.kind == EventKind::node_begin
                           ? forward_of(event.return_address, event.stack_pointer)
                           : kNone;
    // Every node has its own number; its name and its creator identify it here.
    apply(thread, event, {key.id, event.what, 0, thread.caused_by});
    return;
  }
  apply(thread, event, key);
}

bool PathCounter::add_known(std::uint32_t index, const EventKey& key, std::uint64_t time) {
  State::Thread& thread = *state_->threads[index];
  if (key.stack_pointer != 0) thread.near = key.stack_pointer;
  return !thread.call_on_its_way && !thread.body_on_its_way &&
         state_->repeat(thread, {thread.now, key}, time);
}

bool PathCounter::may_wait(std::uint32_t index) const {
  return state_->threads[index]->native.size() <= 1;  // Only a worker starts with a region's body.
}

std::uint64_t PathCounter::patience(std::uint32_t index, const Event& event) const {
  if (event.kind != EventKind::function_entry || !may_wait(index)) return 0;
  const FunctionRole& role = state_->functions.role(event.what);
  if (role.region_data) return 0;  // Its region was opened before.
  return role.region_body || state_->regions.contains(event.what) ? kRegionPatience : 0;
}

std::uint64_t PathCounter::ops() const {
  return state_->op_calls;
}

std::size_t PathCounter::paths() const {
  return state_->paths.size();
}

bool PathCounter::enough() const {
  const TraceSelection& selection = state_->selection;
  return selection.count != 0 && state_->op_calls > selection.skip + selection.count;
}

CallTreeStatistics PathCounter::statistics() const {
  CallTreeStatistics sum;
  for (const auto& thread : state_->threads)
    for (const auto statistic : kCallTreeStatistics)
      sum.*statistic += thread->rules.statistics().*statistic;
  return sum;
}

std::uint64_t PathCounter::untied_activities() const {
  return state_->untied;
}

std::string untied_activities_warning(std::uint64_t untied) {
  if (untied == 0) return {};
  return fmt::format(
      "{} kernels, copies or fills of the device are missing: the calls that launched them were "
      "not recorded, or are too old.",
      untied);
}

std::vector<TracePath> PathCounter::take(std::uint64_t time) {
  for (const auto& thread : state_->threads) {
    state_->enter_body(*thread, {});
    state_->settle_call(*thread);
    while (!thread->open_ops.empty()) state_->close_op(*thread, 0);
    for (const State::Live& live : thread->native) state_->leave(live, time);
    for (const State::Live& live : thread->python) state_->leave(live, time);
  }
  return state_->take_paths();
}

// Returns the path as the trace has it, without its links to other paths.
TracePath PathCounter::State::trace_path(std::uint32_t path, bool is_merged) {
  const PathKey& key = paths[path];
  const Usage& counted = usages[path];
  TracePath made{.kind = key.kind(),
                 .tail_call = key.is_tail_call(),
                 .what = key.what,
                 .line = key.kind() == PathKind::merged ? 0 : key.line,
                 .builtin = key.builtin,
                 .thread = key.thread,
                 .thread_count = counted.thread_count,
                 .calls = counted.calls};
  // Frames that may contain each other have no total time.
  if (!is_merged) {
    made.total_time = counted.total_time;
    made.shortest_time = counted.shortest_time;
    made.longest_time = counted.longest_time;
  }
  if (counted.tallies == kNone) return made;
  Tallies& of = tallies[counted.tallies];
  made.ops = std::move(of.ops);
  made.arguments = std::move(of.arguments);
  made.ops_left_out = of.ops_left_out;
  made.activities = std::move(of.activities);
  made.activities_left_out = of.activities_left_out;
  return made;
}

std::vector<TracePath> PathCounter::State::take_paths() {
  slots = {};
  // Keeps counted paths and those that lead to them.
  std::vector<std::uint8_t> kept(paths.size());
  std::size_t count = 0;
  for (std::uint32_t i = static_cast<std::uint32_t>(paths.size()); i-- > 0;) {
    if (usages[i].calls != 0) kept[i] = 1;
    if (kept[i] == 0) continue;
    ++count;
    const std::uint32_t parent = paths[i].parent;
    if (parent != kNone) kept[parent] = 1;
    if (paths[i].kind() == PathKind::merged) unnamed += usages[i].calls;
    if (parent != kNone && paths[parent].kind() == PathKind::merged) merged += usages[i].calls;
  }
  // For calls of an unknown function, it is unknown whether the selection includes them.
  if (functions_left_out) unnamed = std::max<std::uint64_t>(unnamed, 1);
  merged += unnamed;
  std::vector<std::uint32_t> places(paths.size(), kNone);
  std::vector<TracePath> taken;
  taken.reserve(count);
  for (std::uint32_t i = 0; i < paths.size(); ++i) {
    if (kept[i] == 0) continue;
    TracePath* const parent = paths[i].parent == kNone ? nullptr : &taken[places[paths[i].parent]];
    const bool below_merged = parent != nullptr && parent->kind == PathKind::merged;
    TracePath path = trace_path(i, below_merged || paths[i].kind() == PathKind::merged);
    if (parent != nullptr) {
      path.parent = places[paths[i].parent];
      path.thread = parent->thread;
    }
    // A "..." frame has the sum of all calls below it.
    if (below_merged) parent->calls += path.calls;
    if (const std::uint32_t cause = paths[i].caused_by; cause != kNone)
      path.caused_by = places[cause];
    places[i] = static_cast<std::uint32_t>(taken.size());
    taken.push_back(std::move(path));
    paths.drop_before(i);
    usages.drop_before(i);
  }
  paths = {};
  usages = {};
  return taken;
}

std::uint64_t PathCounter::merged_calls() const {
  return state_->merged;
}

std::uint64_t PathCounter::unnamed_calls() const {
  return state_->unnamed;
}

void note_merged_paths(nlohmann::json& meta, const PathCounter& counter) {
  const std::uint64_t unnamed = counter.unnamed_calls();
  if (counter.merged_calls() != unnamed)
    note_shortfall(meta, "paths_merged", counter.merged_calls() - unnamed);
  if (unnamed != 0) note_shortfall(meta, "calls_unnamed", unnamed);
}

namespace {

// The functions of a timeline.
class TracePathFunctions : public PathFunctions {
 public:
  explicit TracePathFunctions(const Trace& trace) : trace_(trace), tree_(trace) {}

  std::uint32_t identity(std::uint32_t function) const override { return tree_.identity(function); }
  bool probed(std::uint32_t function) const override { return tree_.probed(function); }
  bool enters_itself(std::uint32_t function) const override {
    return tree_.enters_itself(function);
  }
  bool is_evaluation_loop(std::uint32_t function) const override {
    return tree_.is_evaluation_loop(function);
  }
  bool is_agent(std::uint32_t function) const override { return tree_.is_agent(function); }
  bool begins_threads(std::uint32_t function) const override {
    return tree_.begins_threads(function);
  }
  bool runs_nodes(std::uint32_t function) const override { return tree_.runs_nodes(function); }
  bool can_jump(std::uint32_t from, std::uint32_t to) const override {
    return tree_.can_jump(from, to);
  }
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const override {
    return tree_.jump_is_indirect(from, to);
  }
  bool calls_by_name(const Event&, std::uint32_t) const override { return false; }
  OpStep op_step(std::uint32_t function, std::uint32_t record) const override {
    return tree_.op_step(function, record);
  }
  std::uint32_t op_of(std::uint32_t record) const override { return tree_.op_of(record); }
  const FunctionRole& role(std::uint32_t function) const override { return tree_.role(function); }
  bool is_plumbing(std::uint32_t) const override { return false; }
  std::string_view python_name(std::uint32_t function) const override {
    return trace_.python_functions[function].name;
  }
  std::string_view op_name(std::uint32_t record) const override { return tree_.op_name(record); }

 private:
  const Trace& trace_;
  TraceCallTreeFunctions tree_;
};

}  // namespace

void count_paths(Trace& trace, const TraceSelection& selection,
                 std::shared_ptr<MemoryBudget> budget) {
  const TracePathFunctions functions(trace);
  PathCounter counter(functions, selection, std::move(budget));
  for (const ThreadRecord& thread : trace.threads) {
    const std::uint32_t index = counter.add_thread();
    for (const InitialFrame& frame : thread.initial_stack) counter.add_initial(index, frame);
    for (std::size_t i = 0; i < thread.events.size(); ++i)
      check_event(trace, thread.events[i], i, thread.id);
  }
  // Merges the threads by time; workers wait as patience() requires.
  std::vector<std::size_t> next(trace.threads.size());
  std::uint64_t last = 0;
  while (true) {
    std::optional<std::uint32_t> first;
    std::uint64_t earliest = 0;
    std::uint64_t second = std::numeric_limits<std::uint64_t>::max();
    for (std::uint32_t i = 0; i < next.size(); ++i) {
      if (next[i] == trace.threads[i].events.size()) continue;
      const Event& event = trace.threads[i].events[next[i]];
      const std::uint64_t due = event.time + counter.patience(i, event);
      if (!first || due < earliest) {
        if (first) second = std::min(second, earliest);
        first = i;
        earliest = due;
      } else {
        second = std::min(second, due);
      }
    }
    if (!first) break;
    const std::vector<Event>& events = trace.threads[*first].events;
    std::size_t& at = next[*first];
    do {
      last = std::max(last, events[at].time);
      counter.add(*first, events[at++]);
    } while (at < events.size() && events[at].time < second &&
             counter.patience(*first, events[at]) == 0);
  }
  trace.paths = counter.take(last);
  trace.statistics = counter.statistics();
  if (std::string warning = untied_activities_warning(counter.untied_activities());
      !warning.empty()) {
    trace.meta["warnings"].push_back(std::move(warning));
    note_shortfall(trace.meta, "device_work_missing", counter.untied_activities());
  }
  note_merged_paths(trace.meta, counter);
}

}  // namespace optrace
