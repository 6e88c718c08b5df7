#include "report/job/trace_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <xxhash.h>

#include "platform/error.h"
#include "report/job/call_patterns.h"
#include "report/job/merged_contents.h"
#include "report/job/merged_meta.h"
#include "report/job/merged_processes.h"
#include "report/job/numbered_values.h"
#include "report/job/path_counts.h"

namespace optrace {
namespace {

/// Identifies a path among those of all traces.
struct TracePathKey {
  std::uint32_t parent, what, line, column, end_line, end_column, builtin, call_offset, caused_by;
  std::uint32_t kind;  ///< TracePath::kind times two, plus one for a tail call.
  bool operator==(const TracePathKey&) const = default;
};
static_assert(std::has_unique_object_representations_v<TracePathKey>);

/// All processes so far took the path equally often.
constexpr std::uint32_t kUniform = kNone;

/// What is known of a merged path besides its counts.
struct PathOrigin {
  std::uint32_t first = kNone;     ///< The first process that took it, in the order of addition.
  std::uint32_t order = 0;         ///< Index of the path in the trace of that process.
  std::uint32_t thread_order = 0;  ///< Index of its thread in that trace.
  std::uint32_t pattern = kUniform;
  std::uint32_t participants =
      0;  ///< For kUniform: the number of processes, which are the first ones added.
  std::uint32_t next = 0;   ///< The path that came after it in the trace before.
  std::uint32_t round = 0;  ///< The number of the trace that has it, and the next two.
  std::uint32_t new_pattern = kUniform;
  std::uint64_t new_calls = 0;
  std::uint64_t thread = 0;  ///< The system's id of its thread.
};

}  // namespace

class TraceMerge::State {
 public:
  void add(const Trace& trace) {
    require_same_torch(trace);
    std::optional<MergedProcesses> merged = read_merged_processes(trace);
    const auto base = static_cast<std::uint32_t>(processes_.size());
    const std::uint32_t first_before = first_process();
    if (merged)
      processes_.insert(processes_.end(), merged->processes.begin(), merged->processes.end());
    else
      processes_.push_back(process_of(trace));
    require_new(base);
    meta_.add(trace, first_before == kNone || precedes(base, first_before), merged.has_value());
    for (const auto statistic : kCallTreeStatistics)
      statistics_.*statistic += trace.statistics.*statistic;
    for (const ThreadRecord& thread : trace.threads) lost_ += thread.lost;
    contents_.add(trace);
    take_paths(trace, merged ? &*merged : nullptr, base);
    if (patterns_.size() > kMinPatterns && patterns_.size() > 2 * live_patterns_) drop_patterns();
  }

  Trace take() {
    Trace trace;
    std::vector<std::uint32_t> process_order;
    const std::vector<std::uint32_t> process_places = places_of(
        processes_.size(),
        [&](std::uint32_t left, std::uint32_t right) { return precedes(left, right); },
        &process_order);
    contents_.take(paths_, keys_.empty() ? kNoKeys : keys_, trace);
    take_paths(trace, process_places, process_order);
    trace.meta = meta_.take();
    trace.meta.merged = merged_processes_json(taken_, trace.paths);
    trace.statistics = statistics_;
    return trace;
  }

 private:
  static constexpr std::size_t kMinPatterns = 4096;

  bool precedes(std::uint32_t left, std::uint32_t right) const {
    return comes_before(processes_[left], processes_[right]);
  }

  std::uint32_t first_process() {
    for (; counted_ < processes_.size(); ++counted_)
      if (first_ == kNone || precedes(static_cast<std::uint32_t>(counted_), first_))
        first_ = static_cast<std::uint32_t>(counted_);
    return first_;
  }

  /// Throws Error(usage) if the trace's torch differs from that of the first trace.
  void require_same_torch(const Trace& trace) {
    const TorchBuild& torch = trace.meta.torch;
    const std::string keys = trace.op_records.empty() ? std::string() : trace.op_records[0];
    if (processes_.empty()) torch_ = torch;
    const bool is_same_torch =
        torch.version == torch_.version && torch.git_version == torch_.git_version;
    if (!is_same_torch)
      throw Error(
          ExitStatus::usage,
          fmt::format("the traces are of different versions of torch: {} and {}",
                      null_if_empty(torch_.version).dump(), null_if_empty(torch.version).dump()),
          "Give the traces of one job.");
    if (keys.empty() || keys == kNoKeys) return;
    if (!keys_.empty() && keys != keys_)
      throw Error(ExitStatus::usage,
                  "the traces are of torches with different dispatch keys, although they have the "
                  "same version",
                  "Give the traces of one job.");
    keys_ = keys;
  }

  /// Throws Error(usage) if a process from `base` on is known.
  void require_new(std::uint32_t base) {
    for (std::uint32_t i = base; i < processes_.size(); ++i) {
      const MergedProcess& added = processes_[i];
      if (known_processes_.emplace(added.rank, added.id, added.digest).second) continue;
      throw Error(ExitStatus::usage,
                  fmt::format("the trace of {} is given twice, on its own or in a merged trace",
                              added.rank ? fmt::format("rank {}", *added.rank)
                              : added.id ? fmt::format("process {}", *added.id)
                                         : "a process"),
                  "Give each trace once, so that no call is counted twice.");
    }
  }

  /// Returns the number that identifies what a path is of, for its key.
  std::uint32_t identity_of(const TracePath& path, const Trace& trace, const OpRecords& records) {
    if (path.what == kNone) return kNone;
    switch (path.kind) {
      case PathKind::python:
        return contents_.python_function(path.what);
      case PathKind::node:
        return contents_.record_of(trace, path.what);
      case PathKind::op:
        return contents_.op_of(contents_.record_of(trace, path.what), path.what, records);
      default:
        return contents_.function(path.what);
    }
  }

  void take_paths(const Trace& trace, const MergedProcesses* merged, std::uint32_t base) {
    const OpRecords records(trace);
    ++round_;
    touched_.clear();
    places_.resize(trace.paths.size());
    new_patterns_.clear();
    std::uint32_t last = kNone;
    for (std::uint32_t i = 0; i < trace.paths.size(); ++i) {
      const TracePath& path = trace.paths[i];
      const std::uint32_t what = identity_of(path, trace, records);
      // A report ignores a cause that comes later.
      const bool is_caused = path.caused_by != kNone && path.caused_by < i;
      const TracePathKey key{
          .parent = at_or_none(places_, path.parent),
          .what = what,
          .line = path.line,
          .column = path.column,
          .end_line = path.end_line,
          .end_column = path.end_column,
          .builtin = contents_.python_function(path.builtin),
          .call_offset = path.call_offset,
          .caused_by = is_caused ? places_[path.caused_by] : kNone,
          .kind = static_cast<std::uint32_t>(path.kind) * 2 + (path.tail_call ? 1 : 0)};
      const std::uint32_t place = find_or_add(key, last);
      last = places_[i] = place;
      set_what(trace, path, place);
      add_counts(trace, path, records.key_names(), contents_, paths_[place]);
      const std::uint32_t pattern = merged ? merged->pattern_of[i] : kUniform;
      std::uint32_t first = base;
      if (merged != nullptr)
        if (const std::uint32_t added = added_pattern(*merged, pattern, base); added != kUniform) {
          first = first_of(added);
          add_calls(place, path.calls, added, base);
          set_origin(place, first, i, path, trace);
          continue;
        }
      add_calls(place, path.calls, kUniform, base);
      set_origin(place, first, i, path, trace);
    }
    for (const std::uint32_t place : touched_) settle(place, base);
  }

  /// Returns the path with this key, which is probably the one that came after `last` before.
  std::uint32_t find_or_add(const TracePathKey& key, std::uint32_t last) {
    std::uint32_t& next = last == kNone ? first_path_ : origins_[last].next;
    if (next < keys_of_.size() && keys_of_[next] == key) return next;
    const std::uint64_t hash = XXH3_64bits(&key, sizeof key);
    if ((keys_of_.size() + 1) * 2 > slots_.size()) grow();
    std::size_t at = hash & (slots_.size() - 1);
    while (slots_[at] != kNone && !(keys_of_[slots_[at]] == key))
      at = (at + 1) & (slots_.size() - 1);
    const bool is_new = slots_[at] == kNone;
    if (is_new) slots_[at] = static_cast<std::uint32_t>(keys_of_.size());
    const std::uint32_t place = slots_[at];
    next = place;
    if (is_new) {
      keys_of_.push_back(key);
      paths_.emplace_back().kind = static_cast<PathKind>(key.kind / 2);
      paths_.back().thread_count = 0;
      origins_.emplace_back().next = place + 1;
    }
    return place;
  }

  void grow() {
    constexpr std::size_t kSmallest = 1024;
    slots_.assign(std::max(slots_.size() * 2, kSmallest), kNone);
    for (std::uint32_t place = 0; place < keys_of_.size(); ++place) {
      std::size_t at = XXH3_64bits(&keys_of_[place], sizeof(TracePathKey)) & (slots_.size() - 1);
      while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
      slots_[at] = place;
    }
  }

  /// Records what the path is of. Of several records of an op, the one with the first text is kept.
  void set_what(const Trace& trace, const TracePath& path, std::uint32_t place) {
    TracePath& sum = paths_[place];
    if (path.kind == PathKind::op || path.kind == PathKind::node) {
      const std::uint32_t record =
          path.what == kNone ? kNone : contents_.record_of(trace, path.what);
      if (sum.what == kNone ||
          (record != kNone && contents_.record_text(record) < contents_.record_text(sum.what)))
        sum.what = record;
    } else {
      sum.what = keys_of_[place].what;
    }
  }

  /// Returns the pattern of an added merged trace for the processes in their order of addition;
  /// kUniform if all of its processes took the path equally often.
  std::uint32_t added_pattern(const MergedProcesses& merged, std::uint32_t pattern,
                              std::uint32_t base) {
    const auto [known, added] = new_patterns_.try_emplace(pattern, kUniform);
    if (!added) return known->second;
    const CallPattern& groups = merged.patterns[pattern];
    const auto count = static_cast<std::uint32_t>(merged.processes.size());
    const ProcessSet all{{0, count - 1}};
    if (groups.size() == 1 && groups[0].least == groups[0].most &&
        merged.patterns.set(groups[0].processes) == all)
      return kUniform;
    CallPattern shifted = groups;
    for (CallGroup& group : shifted) {
      ProcessSet processes = merged.patterns.set(group.processes);
      for (ProcessRun& run : processes) run = {run.first + base, run.last + base};
      group.processes = patterns_.add_set(std::move(processes));
    }
    return known->second = patterns_.add(std::move(shifted));
  }

  std::uint32_t first_of(std::uint32_t pattern) const {
    std::uint32_t first = kNone;
    for (const CallGroup& group : patterns_[pattern])
      first = std::min(first, patterns_.set(group.processes).front().first);
    return first;
  }

  void set_origin(std::uint32_t place, std::uint32_t first, std::uint32_t order,
                  const TracePath& path, const Trace& trace) {
    PathOrigin& origin = origins_[place];
    if (origin.first != kNone && !precedes(first, origin.first)) return;
    origin.first = first;
    origin.order = order;
    origin.thread_order = path.thread;
    origin.thread = path.thread < trace.threads.size() ? trace.threads[path.thread].id : 0;
  }

  /// Records the calls of a path of the trace that is being added; a trace may have several paths
  /// that become one. `pattern` is that of the added processes, or kUniform.
  void add_calls(std::uint32_t place, std::uint64_t calls, std::uint32_t pattern,
                 std::uint32_t base) {
    PathOrigin& origin = origins_[place];
    if (origin.round != round_) {
      origin.round = round_;
      origin.new_calls = calls;
      origin.new_pattern = pattern;
      touched_.push_back(place);
      return;
    }
    if (origin.new_pattern != kUniform || pattern != kUniform) {
      const std::uint32_t before =
          explicit_pattern(origin.new_pattern, origin.new_calls, base, process_count());
      origin.new_pattern =
          patterns_.sum(before, explicit_pattern(pattern, calls, base, process_count()));
    }
    origin.new_calls += calls;
  }

  std::uint32_t process_count() const { return static_cast<std::uint32_t>(processes_.size()); }

  /// Returns the pattern itself or, for kUniform, that of the processes [begin, end).
  std::uint32_t explicit_pattern(std::uint32_t pattern, std::uint64_t calls, std::uint32_t begin,
                                 std::uint32_t end) {
    if (pattern != kUniform) return pattern;
    if (begin == end) return patterns_.add({});
    const std::tuple key(begin, end, calls);
    if (uniform_key_ == key) return uniform_pattern_;
    uniform_key_ = key;
    return uniform_pattern_ =
               patterns_.add_uniform(patterns_.add_set({{begin, end - 1}}), calls / (end - begin));
  }

  /// Adds the calls of the trace that is being added to those of the traces before.
  void settle(std::uint32_t place, std::uint32_t base) {
    PathOrigin& origin = origins_[place];
    TracePath& path = paths_[place];
    const std::uint32_t count = process_count();
    const std::uint64_t each = origin.new_calls / (count - base);
    if (origin.pattern == kUniform && origin.new_pattern == kUniform &&
        origin.participants == base &&
        (base == 0 || (path.calls / base == each && path.calls % base == 0))) {
      origin.participants = count;
    } else {
      const std::uint32_t before =
          explicit_pattern(origin.pattern, path.calls, 0, origin.participants);
      const std::uint32_t more =
          explicit_pattern(origin.new_pattern, origin.new_calls, base, count);
      if (std::pair(before, more) != last_addends_) {
        last_addends_ = {before, more};
        last_sum_ = patterns_.sum(before, more);
      }
      origin.pattern = last_sum_;
    }
    path.calls += origin.new_calls;
  }

  /// Drops the patterns that no path has any more.
  void drop_patterns() {
    CallPatterns live;
    std::unordered_map<std::uint32_t, std::uint32_t> kept;
    for (PathOrigin& origin : origins_) {
      if (origin.pattern == kUniform) continue;
      const auto [at, added] = kept.try_emplace(origin.pattern, 0);
      if (added) {
        CallPattern groups = patterns_[origin.pattern];
        for (CallGroup& group : groups)
          group.processes = live.add_set(patterns_.set(group.processes));
        at->second = live.add(std::move(groups));
      }
      origin.pattern = at->second;
    }
    patterns_ = std::move(live);
    live_patterns_ = patterns_.size();
    uniform_key_ = {kNone, kNone, 0};
    last_addends_ = {kNone, kNone};
  }

  void take_paths(Trace& trace, const std::vector<std::uint32_t>& process_places,
                  const std::vector<std::uint32_t>& process_order) {
    // A path comes after its parent and its cause, also if an added trace was malformed.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> ranks(paths_.size());
    for (std::uint32_t i = 0; i < paths_.size(); ++i) {
      const PathOrigin& origin = origins_[i];
      ranks[i] = {process_places[origin.first], origin.order};
      for (const std::uint32_t above : {keys_of_[i].parent, keys_of_[i].caused_by})
        if (above != kNone) ranks[i] = std::max(ranks[i], ranks[above]);
    }
    std::vector<std::uint32_t> order;
    const std::vector<std::uint32_t> places = places_of(
        paths_.size(),
        [&](std::uint32_t left, std::uint32_t right) {
          return ranks[left] != ranks[right] ? ranks[left] < ranks[right] : left < right;
        },
        &order);
    const auto thread_of = [&](const PathOrigin& origin) {
      return std::tuple(process_places[origin.first], origin.thread_order, origin.thread);
    };
    std::map<std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>, std::uint32_t> threads;
    for (const PathOrigin& origin : origins_) threads.emplace(thread_of(origin), 0);
    for (auto& [thread, place] : threads) {
      place = static_cast<std::uint32_t>(trace.threads.size());
      trace.threads.emplace_back().id = std::get<2>(thread);
    }
    if (trace.threads.empty() && lost_ != 0) trace.threads.emplace_back();
    if (!trace.threads.empty()) trace.threads[0].lost = lost_;

    for (const std::uint32_t process : process_order)
      taken_.processes.push_back(processes_[process]);
    trace.paths.reserve(paths_.size());
    for (const std::uint32_t number : order) {
      const TracePathKey& key = keys_of_[number];
      TracePath path = std::move(paths_[number]);
      path.tail_call = key.kind % 2 != 0;
      path.parent = at_or_none(places, key.parent);
      path.what = what_of(path);
      path.line = key.line;
      path.column = key.column;
      path.end_line = key.end_line;
      path.end_column = key.end_column;
      path.builtin = contents_.python_function(key.builtin);
      path.call_offset = key.call_offset;
      path.caused_by = at_or_none(places, key.caused_by);
      path.thread = threads.at(thread_of(origins_[number]));
      take_counts(path);
      const std::uint32_t pattern =
          explicit_pattern(origins_[number].pattern, path.calls, 0, origins_[number].participants);
      taken_.pattern_of.push_back(taken_pattern(pattern, process_places));
      trace.paths.push_back(std::move(path));
    }
  }

  std::uint32_t what_of(const TracePath& path) const {
    if (path.what == kNone) return kNone;
    if (path.kind == PathKind::op || path.kind == PathKind::node)
      return contents_.taken_record(path.what);
    return path.kind == PathKind::python ? contents_.python_function(path.what)
                                         : contents_.function(path.what);
  }

  /// Orders the counts of a path: the most frequent ones first, equally frequent ones by content.
  void take_counts(TracePath& path) const {
    for (OpCallCount& counted : path.ops) {
      counted.record = contents_.taken_record(counted.record);
      counted.results = contents_.taken_record(counted.results);
    }
    std::ranges::sort(path.ops, {}, [](const OpCallCount& counted) {
      return std::tuple(~counted.calls, counted.record, counted.results);
    });
    std::ranges::sort(path.arguments, {}, [](const ArgumentCount& counted) {
      return std::tuple(~counted.calls, counted.first, counted.second);
    });
    std::ranges::sort(path.returned, {}, [](const ReturnCount& counted) {
      return std::pair(~counted.calls, counted.value);
    });
    for (ActivityCount& counted : path.activities)
      counted.record = contents_.taken_record(counted.record);
    std::ranges::sort(path.activities, {}, [](const ActivityCount& counted) {
      return std::pair(~counted.times, counted.record);
    });
  }

  /// Returns the pattern with the processes in their final order.
  std::uint32_t taken_pattern(std::uint32_t pattern,
                              const std::vector<std::uint32_t>& process_places) {
    const auto [known, added] = taken_patterns_.try_emplace(pattern, 0);
    if (!added) return known->second;
    CallPattern groups = patterns_[pattern];
    for (CallGroup& group : groups) {
      std::vector<std::uint32_t> places;
      for (const ProcessRun& run : patterns_.set(group.processes))
        places.insert(places.end(), process_places.begin() + run.first,
                      process_places.begin() + run.last + 1);
      std::ranges::sort(places);
      ProcessSet processes;
      for (const std::uint32_t place : places)
        if (!processes.empty() && processes.back().last + 1 == place)
          processes.back().last = place;
        else
          processes.push_back({place, place});
      group.processes = taken_.patterns.add_set(std::move(processes));
    }
    return known->second = taken_.patterns.add(std::move(groups));
  }

  // The first op record of a merged trace if no op was recorded, which its shortfalls count.
  static constexpr const char* kNoKeys = "{}";

  // Of all traces.
  TorchBuild torch_;
  std::string keys_;
  MergedMeta meta_;
  CallTreeStatistics statistics_;
  std::uint64_t lost_ = 0;
  std::vector<MergedProcess> processes_;  // In the order of addition.
  std::set<std::tuple<std::optional<std::uint64_t>, std::optional<std::uint64_t>, std::uint64_t>>
      known_processes_;
  std::size_t counted_ = 0;
  std::uint32_t first_ = kNone;
  MergedContents contents_;
  std::vector<TracePath> paths_;
  std::vector<TracePathKey> keys_of_;  // Parallel to `paths_`.
  std::vector<PathOrigin> origins_;    // Parallel to `paths_`.
  std::vector<std::uint32_t> slots_;   // Paths by key: open addressing, half full at most.
  std::uint32_t first_path_ = 0;
  CallPatterns patterns_;  // Of processes in the order of addition.
  std::size_t live_patterns_ = 0;

  // Of the trace that is being added: the merged path of each of its paths, and the merged paths
  // that it has.
  std::vector<std::uint32_t> places_, touched_;
  std::unordered_map<std::uint32_t, std::uint32_t> new_patterns_;
  std::uint32_t round_ = 0;
  std::tuple<std::uint32_t, std::uint32_t, std::uint64_t> uniform_key_{kNone, kNone, 0};
  std::uint32_t uniform_pattern_ = 0;
  std::pair<std::uint32_t, std::uint32_t> last_addends_{kNone, kNone};
  std::uint32_t last_sum_ = 0;

  // Of the merged trace.
  MergedProcesses taken_;
  std::unordered_map<std::uint32_t, std::uint32_t> taken_patterns_;
};

TraceMerge::TraceMerge() : state_(std::make_unique<State>()) {}
TraceMerge::~TraceMerge() = default;

void TraceMerge::add(const Trace& trace) {
  state_->add(trace);
}

Trace TraceMerge::take() {
  return state_->take();
}

}  // namespace optrace
