#include "tracer/collect/counted_paths.h"

#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <xxhash.h>

#include "pytorch/names/op_name.h"

namespace optrace {
namespace {

// The selection's decisions for the calls in a "..." frame: bits in the `line` of its path.
constexpr std::uint32_t kChosen = 1, kInOp = 2, kInModule = 4;

// Deeper recursion is merged: nobody reads that far, and memory is limited.
constexpr std::uint32_t kMaxPathDepth = 10'000;

// Bytes that a path takes here, in the trace, and in the report, where its frame takes most.
constexpr std::size_t kBytesPerPath = 1536;

std::uint64_t hash_of(const CountedPathKey& key) {
  static_assert(std::has_unique_object_representations_v<CountedPathKey>);
  return XXH3_64bits(&key, sizeof key);
}

}  // namespace

CountedPaths::CountedPaths(const PathFunctions& functions, const OpSelection& selection,
                           std::shared_ptr<MemoryBudget> budget)
    : functions_(functions), selection_(selection), budget_(std::move(budget)) {}

std::uint32_t CountedPaths::add(const CountedPathKey& key, std::uint32_t thread) {
  if ((paths_.size() + 1) * 2 > slots_.size()) grow_slots();
  if (const std::uint32_t known = slot_of(key); known != kNone) return known;
  return has_room_below(key.parent) ? insert(key) : add_merged(key, thread);
}

// Counts a path without room by its function alone, below a "..." frame. That frame is below the
// path's root or, if the path is too deep, below the last path that is not. The selection stays
// exact: there is a "..." frame for each combination of its decisions.
std::uint32_t CountedPaths::add_merged(const CountedPathKey& key, std::uint32_t thread) {
  std::uint32_t above = key.parent;
  std::uint32_t flags = selection_.every_module() ? kInModule : 0;
  for (const std::uint32_t from : {key.parent, key.caused_by}) {
    if (from == kNone) continue;
    flags |= (usages_[from].chosen ? kChosen : 0) | (usages_[from].in_op ? kInOp : 0) |
             (usages_[from].in_module ? kInModule : 0);
  }
  if (above != kNone) {
    if (is_merged(above)) above = paths_[above].parent;
    if (paths_[above].kind() == PathKind::merged)
      above = paths_[above].parent;
    else if (usages_[above].depth < kMaxPathDepth)
      above = usages_[above].root;
  }
  const CountedPathKey group{.parent = above,
                             .what = kNone,
                             .line = flags,
                             .builtin = kNone,
                             .caused_by = kNone,
                             .kind_and_jump = CountedPathKey::combined(PathKind::merged, false),
                             .thread = above == kNone ? thread : 0,
                             .call_offset = 0};
  std::uint32_t place = slot_of(group);
  if (place == kNone) place = insert(group);
  if ((paths_.size() + 1) * 2 > slots_.size()) grow_slots();
  CountedPathKey alone = key;
  alone.parent = place;
  alone.line = 0;
  alone.caused_by = kNone;
  alone.kind_and_jump = CountedPathKey::combined(key.kind(), false);
  alone.thread = alone.call_offset = 0;
  if (const std::uint32_t known = slot_of(alone); known != kNone) return known;
  if (budget_->has_room_for_merged()) return insert(alone);
  functions_left_out_ = true;
  return place;
}

// Adds the path with this key, which must be new.
std::uint32_t CountedPaths::insert(const CountedPathKey& key) {
  const auto path = static_cast<std::uint32_t>(paths_.size());
  slot_of(key) = path;
  usages_.push_back(choose(key));
  if (key.parent == kNone) usages_[path].root = path;
  paths_.push_back(key);
  budget_->take(kBytesPerPath);
  return path;
}

// Returns the slot of the path, or the free one for it.
std::uint32_t& CountedPaths::slot_of(const CountedPathKey& key) {
  std::size_t at = hash_of(key) & (slots_.size() - 1);
  while (slots_[at] != kNone && !(paths_[slots_[at]] == key)) at = (at + 1) & (slots_.size() - 1);
  return slots_[at];
}

void CountedPaths::grow_slots() {
  constexpr std::size_t kSmallest = 1024;
  slots_.assign(std::max(slots_.size() * 2, kSmallest), kNone);
  for (std::uint32_t path = 0; path < paths_.size(); ++path) slot_of(paths_[path]) = path;
}

// Returns true if the path is counted by its function alone.
bool CountedPaths::is_merged(std::uint32_t path) const {
  return paths_[path].parent != kNone && paths_[paths_[path].parent].kind() == PathKind::merged;
}

bool CountedPaths::has_room_below(std::uint32_t parent) const {
  if (parent == kNone) return budget_->has_room();
  return paths_[parent].kind() != PathKind::merged && !is_merged(parent) &&
         usages_[parent].depth < kMaxPathDepth && budget_->has_room();
}

// Applies the selection to a path. The result depends on the path above it, and for an autograd
// node also on the op that created it.
PathUsage CountedPaths::choose(const CountedPathKey& path) const {
  PathUsage chosen;
  if (path.parent != kNone) {
    chosen.root = usages_[path.parent].root;
    chosen.depth = usages_[path.parent].depth + 1;
  }
  const bool only_module = selection_.every_op();
  if (path.kind() == PathKind::merged) {
    chosen.in_op = (path.line & kInOp) != 0;
    chosen.in_module = (path.line & kInModule) != 0;
    chosen.chosen = (path.line & kChosen) != 0 || (only_module && chosen.in_module);
    return chosen;
  }
  for (const std::uint32_t from : {path.parent, path.caused_by}) {
    if (from == kNone) continue;
    chosen.chosen = chosen.chosen || usages_[from].chosen;
    chosen.in_op = chosen.in_op || usages_[from].in_op;
    chosen.in_module = chosen.in_module || usages_[from].in_module;
  }
  chosen.in_module = chosen.in_module || selection_.every_module() ||
                     (path.kind() == PathKind::python &&
                      selection_.includes_python(functions_.python_name(path.what)));
  const bool is_op = path.kind() == PathKind::op;
  const bool is_step = path.is_function() && functions_.role(path.what).op_call;
  if ((is_op || is_step) && chosen.in_module && !chosen.in_op) {
    const std::string_view op = is_op ? functions_.op_name(path.what) : std::string_view();
    const std::string name =
        is_op ? unambiguous_name(op) : std::string(functions_.role(path.what).op);
    chosen.chosen_op = selection_.includes_op(name, op);
    chosen.in_op = chosen.chosen_op;
  }
  chosen.chosen = chosen.chosen || chosen.chosen_op || (only_module && chosen.in_module);
  chosen.opens = is_body_of_region(path);
  return chosen;
}

bool CountedPaths::is_body_of_region(const CountedPathKey& path) const {
  if (!path.is_function() || path.parent == kNone) return false;
  const CountedPathKey& parent = paths_[path.parent];
  return parent.is_function() && functions_.role(parent.what).opens_region;
}

// Counts a path that another thread took last.
void CountedPaths::count_thread(std::uint32_t path, std::uint32_t thread) {
  PathUsage& usage = usages_[path];
  shared_.insert(std::uint64_t{path} << 32 | usage.first_thread);
  if (shared_.insert(std::uint64_t{path} << 32 | thread).second) ++usage.thread_count;
  usage.last_thread = thread;
}

CountedPaths::Counts& CountedPaths::counts_of(std::uint32_t path) {
  std::uint32_t& place = usages_[path].counts;
  if (place == kNone) {
    place = static_cast<std::uint32_t>(counts_.size());
    counts_.emplace_back();
  }
  return counts_[place];
}

void CountedPaths::count_record(std::uint32_t path, std::uint32_t record, std::uint32_t results) {
  // Calls that are counted without a function don't belong to one op.
  if (path == kNone || paths_[path].kind() == PathKind::merged) return;
  Counts& of = counts_of(path);
  for (OpCallCount& known : of.ops) {
    if (known.record == record && known.results == results) {
      ++known.calls;
      return;
    }
  }
  if (of.ops.size() < kMaxCounts)
    of.ops.push_back({record, results, 1});
  else
    ++of.ops_left_out;
}

void CountedPaths::count_arguments(std::uint32_t path, std::uint64_t first, std::uint64_t second) {
  if (paths_[path].kind() == PathKind::merged) return;
  Counts& of = counts_of(path);
  for (ArgumentCount& known : of.arguments) {
    // A hidden pointer to the result differs from call to call; the key set does not.
    if (known.second == second || known.first == first) {
      ++known.calls;
      return;
    }
  }
  if (of.arguments.size() < kMaxCounts) of.arguments.push_back({first, second, 1});
}

void CountedPaths::count_returned(std::uint32_t path, std::uint64_t value) {
  if (paths_[path].kind() == PathKind::merged) return;
  Counts& of = counts_of(path);
  for (ReturnCount& known : of.returned) {
    if (known.value == value) {
      ++known.calls;
      return;
    }
  }
  if (of.returned.size() < kMaxCounts)
    of.returned.push_back({value, 1});
  else
    ++of.returned_left_out;
}

void CountedPaths::count_activity(std::uint32_t path, std::uint32_t record, std::uint64_t took) {
  Counts& of = counts_of(path);
  const auto [place, is_new] =
      activity_places_.try_emplace(std::uint64_t{path} << 32 | record, of.activities.size());
  if (is_new && of.activities.size() == kMaxActivities) {
    activity_places_.erase(place);
    ++of.activities_left_out;
    return;
  }
  if (is_new) of.activities.push_back({record, 0, 0, took, took});
  ActivityCount& counted = of.activities[place->second];
  ++counted.times;
  counted.total_time += took;
  counted.shortest_time = std::min(counted.shortest_time, took);
  counted.longest_time = std::max(counted.longest_time, took);
}

// Marks the counted paths and those that lead to them. Sums the calls in "..." frames.
std::vector<std::uint8_t> CountedPaths::find_kept() {
  std::vector<std::uint8_t> kept(paths_.size());
  for (std::uint32_t i = static_cast<std::uint32_t>(paths_.size()); i-- > 0;) {
    if (usages_[i].calls != 0) kept[i] = 1;
    if (kept[i] == 0) continue;
    const std::uint32_t parent = paths_[i].parent;
    if (parent != kNone) kept[parent] = 1;
    if (paths_[i].kind() == PathKind::merged) unnamed_ += usages_[i].calls;
    if (parent != kNone && paths_[parent].kind() == PathKind::merged) merged_ += usages_[i].calls;
  }
  // For calls of an unknown function, it is unknown whether the selection includes them.
  if (functions_left_out_) unnamed_ = std::max<std::uint64_t>(unnamed_, 1);
  merged_ += unnamed_;
  return kept;
}

// Returns the path as the trace has it, without its links to other paths.
TracePath CountedPaths::trace_path(std::uint32_t path, bool is_merged) {
  const CountedPathKey& key = paths_[path];
  const PathUsage& counted = usages_[path];
  TracePath made{.kind = key.kind(),
                 .tail_call = key.is_tail_call(),
                 .what = key.what,
                 .line = key.kind() == PathKind::merged ? 0 : key.line,
                 .builtin = key.builtin,
                 .call_offset = key.call_offset,
                 .thread = key.thread,
                 .thread_count = counted.thread_count,
                 .calls = counted.calls};
  // Frames that may contain each other have no total time.
  if (!is_merged) {
    made.total_time = counted.total_time;
    made.shortest_time = counted.shortest_time;
    made.longest_time = counted.longest_time;
  }
  if (counted.counts == kNone) return made;
  Counts& of = counts_[counted.counts];
  made.ops = std::move(of.ops);
  made.arguments = std::move(of.arguments);
  made.ops_left_out = of.ops_left_out;
  made.activities = std::move(of.activities);
  made.activities_left_out = of.activities_left_out;
  made.returned = std::move(of.returned);
  made.returned_left_out = of.returned_left_out;
  return made;
}

std::vector<TracePath> CountedPaths::take(std::vector<std::uint32_t>* new_places) {
  slots_ = {};
  const std::vector<std::uint8_t> kept = find_kept();
  std::vector<std::uint32_t> places(paths_.size(), kNone);
  std::vector<TracePath> taken;
  taken.reserve(static_cast<std::size_t>(std::ranges::count(kept, 1)));
  for (std::uint32_t i = 0; i < paths_.size(); ++i) {
    if (kept[i] == 0) continue;
    TracePath* const parent =
        paths_[i].parent == kNone ? nullptr : &taken[places[paths_[i].parent]];
    const bool below_merged = parent != nullptr && parent->kind == PathKind::merged;
    TracePath path = trace_path(i, below_merged || paths_[i].kind() == PathKind::merged);
    if (parent != nullptr) {
      path.parent = places[paths_[i].parent];
      path.thread = parent->thread;
    }
    // A "..." frame has the sum of all calls below it.
    if (below_merged) parent->calls += path.calls;
    if (const std::uint32_t cause = paths_[i].caused_by; cause != kNone)
      path.caused_by = places[cause];
    places[i] = static_cast<std::uint32_t>(taken.size());
    taken.push_back(std::move(path));
    paths_.drop_before(i);
    usages_.drop_before(i);
  }
  paths_ = {};
  usages_ = {};
  if (new_places != nullptr) *new_places = std::move(places);
  return taken;
}

}  // namespace optrace
