#include "tracer/collect/thread_counter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "pytorch/functions/function_roles.h"
#include "tracer/collect/shared_region.h"

namespace optrace {
namespace {

constexpr std::uint64_t kNoSequence = std::numeric_limits<std::uint64_t>::max();
// Selects the thread number in return_address of an op's event: the other half is a place.
constexpr std::uint64_t kThreadNumber = 0xFFFF'FFFF;

// A thread's cache is dropped when it takes more than this.
constexpr std::size_t kMaxCacheBytes = 64 << 20;

std::uint16_t changed_statistics(const CallTreeStatistics& before,
                                 const CallTreeStatistics& after) {
  static_assert(std::size(kCallTreeStatistics) <= 16);
  std::uint32_t changed = 0;
  for (std::size_t i = 0; i < std::size(kCallTreeStatistics); ++i)
    if (before.*kCallTreeStatistics[i] != after.*kCallTreeStatistics[i]) changed |= 1U << i;
  return static_cast<std::uint16_t>(changed);
}

void count_again(std::uint32_t changed, CallTreeStatistics& statistics) {
  static_assert(kCallTreeStatistics[0] == &CallTreeStatistics::entries);
  statistics.entries += changed & 1;  // By far the most frequent one.
  for (changed &= ~1U; changed != 0; changed &= changed - 1)
    ++(statistics.*kCallTreeStatistics[std::countr_zero(changed)]);
}

}  // namespace

void ThreadCounter::add_initial(const InitialFrame& frame) {
  rules_.take_kept();
  rules_.add_initial(frame);
  near_ = frame.stack_pointer;
  const Outcome outcome = outcome_of({native_.size(), python_.size()}, frame.stack_pointer);
  move_to(outcome, frame.stack_pointer, entered_.data(), 0);
}

void ThreadCounter::add(const Event& event, const EventKey& key) {
  enter_body(event);
  switch (event.kind) {
    case EventKind::op_begin:
      settle_call();
      take_record(event);
      begin_op(event, key);
      return;
    case EventKind::op_end:
      settle_call();
      take_record(event);
      end_op(event, key);
      return;
    case EventKind::arguments:
      take_arguments(event.line, event.stack_pointer, event.return_address);
      return;
    case EventKind::call_record:
      take_record(event);
      take_call(event.what, event.stack_pointer, event.return_address);
      return;
    case EventKind::returned:
      add_returned(event);
      return;
    case EventKind::device_call:
      add_device_call(event);
      return;
    case EventKind::device_activity:
      add_activity(event);
      return;
    case EventKind::function_entry:
      if (const FunctionRole& role = shared_.functions.role(event.what);
          role.region_data && role.region_body) {
        body_on_its_way_ = {event, key};
        return;
      }
      break;
    default:
      break;
  }
  add_step(event, key);
}

void ThreadCounter::finish(std::uint64_t time) {
  enter_body({});
  settle_call();
  while (!open_ops_.empty()) close_op(0);
  for (std::size_t i = 0; i < native_.size(); ++i) leave(native_[i], time);
  for (std::size_t i = 0; i < python_.size(); ++i) leave(python_[i], time);
}

std::uint32_t ThreadCounter::add(const CallTreeRules::Node& node, const Event* event) {
  bool jump = node.tail_call;
  std::uint32_t what = node.what;
  if (node.kind == PathKind::function && shared_.functions.is_uncounted(node.what)) {
    if (node.shown_under != kNone && shared_.paths[node.shown_under].is_uncounted())
      return node.shown_under;
    what = kNone;
    jump = false;
  }
  CountedPathKey key{.parent = node.shown_under,
                     .what = what,
                     .line = node.line,
                     .builtin = node.builtin,
                     .caused_by = node.kind == PathKind::node ? caused_by_ : kNone,
                     .kind_and_jump = CountedPathKey::combined(node.kind, jump),
                     .thread = 0,
                     .call_offset = call_offset_of(node, event)};
  if (event != nullptr && node.kind == PathKind::function && what != kNone &&
      (shared_.functions.role(what).region_body || shared_.regions.is_body(what)))
    join_region(*event, key);
  if (key.parent == kNone) key.thread = number_;
  return shared_.paths.add(key, number_);
}

// Returns TracePath::call_offset for a call that a native function made, 0 for others.
std::uint32_t ThreadCounter::call_offset_of(const CallTreeRules::Node& node,
                                            const Event* event) const {
  if (event == nullptr || event->caller == kNone || node.kind != PathKind::function ||
      node.tail_call || node.shown_under == kNone)
    return 0;
  const CountedPathKey& above = shared_.paths[node.shown_under];
  const bool native = above.is_function() || above.kind() == PathKind::initial;
  if (!native || above.what == kNone ||
      shared_.functions.identity(event->caller) != shared_.functions.identity(above.what))
    return 0;
  return shared_.functions.call_offset(*event, above.what);
}

// Puts a worker of an OpenMP region below the call that opened the region, as the opening thread
// is. Both have the pointer to the threads' shared data.
void ThreadCounter::join_region(const Event& event, CountedPathKey& path) {
  const auto take_jump = [&path](bool jump) {
    path.kind_and_jump = CountedPathKey::combined(path.kind(), jump);
  };
  if (path.parent != kNone && shared_.paths[path.parent].is_function() &&
      shared_.functions.role(shared_.paths[path.parent].what).opens_region)
    return;
  const ParallelRegions::Region* const opened =
      region_data_ ? shared_.regions.opened_with(*region_data_) : nullptr;
  if (opened != nullptr) {
    depends_on_time_ = true;
    counting_ = opened->counting;
    path.parent = opened->path;
    take_jump(false);
    path.line = path.call_offset = 0;
    path.builtin = kNone;
    return;
  }
  if (path.parent != kNone) return;
  depends_on_time_ = true;
  const ParallelRegions::Entry* const region =
      shared_.regions.nearest_entry(path.what, number_, event.time);
  if (region == nullptr) return;
  const CountedPathKey& entered = shared_.paths[region->path];
  path.parent = entered.parent;
  take_jump(entered.is_tail_call());
  path.line = entered.line;
  path.builtin = entered.builtin;
  path.call_offset = entered.call_offset;
}

inline void ThreadCounter::enter(Live& live, const EnteredFrame& frame, std::uint64_t time) {
  live = {.frame = frame};
  if (!frame.counts) return;
  const PathUsage& entered = shared_.paths.usage(frame.path);
  if (entered.opens)
    shared_.regions.add_entry(shared_.paths[frame.path].what, {time, number_, frame.path});
  if (entered.chosen_op) counting_ = shared_.selection.includes_call(shared_.selected_op_calls++);
  if (!entered.chosen || (!counting_ && !shared_.selection.everything())) return;
  live.start = time;
  if (shared_.observer != nullptr) live.call = shared_.observer->begin(number_, frame.path, time);
  shared_.paths.count_call(frame.path, number_);
}

inline void ThreadCounter::leave(const Live& live, std::uint64_t time) {
  if (!live.is_counted()) return;
  const std::uint64_t end = live.end != 0 ? live.end : time;
  shared_.paths.usage(live.frame.path).add_time(end > live.start ? end - live.start : 0);
  if (live.call != kNone) shared_.observer->end(number_, live.call, end);
}

// Returns true if the frame continues its caller's path. A path that stands for several frames is
// entered once, with the first.
bool ThreadCounter::repeats(const CallTreeRules::State& state, std::size_t native) const {
  return native > 0 && state.native[native - 1].node == state.native[native].node &&
         shared_.paths[state.native[native].node].is_uncounted();
}

// Ends the frames that are not kept, and enters the new ones.
inline void ThreadCounter::move_to(const Outcome& outcome, std::uint64_t slot,
                                   const EnteredFrame* frames, std::uint64_t time) {
  while (!open_ops_.empty() && open_ops_.back().height > outcome.kept_python)
    close_op(0);  // Its end was not recorded.
  for (std::size_t i = native_.size(); i > outcome.kept_native; --i) leave(native_[i - 1], time);
  for (std::size_t i = python_.size(); i > outcome.kept_python; --i) leave(python_[i - 1], time);
  now_ = outcome.state;
  native_.resize(outcome.native);
  python_.resize(outcome.python);
  if (outcome.enters_one) {
    enter(native_.back(),
          {.slot = slot,
           .path = outcome.entered,
           .counts = outcome.counts,
           .takes_data = outcome.takes_data,
           .opens_region = outcome.opens_region},
          time);
    return;
  }
  for (std::size_t i = outcome.kept_native; i < outcome.native; ++i)
    enter(native_[i], *frames++, time);
  for (std::size_t i = outcome.kept_python; i < outcome.python; ++i)
    enter(python_[i], *frames++, time);
}

// Returns the effect of an event after which `kept` frames are still live. `slot` is the event's
// stack pointer.
Outcome ThreadCounter::outcome_of(const CallTreeRules::Kept& kept, std::uint64_t slot) {
  const CallTreeRules::State& after = rules_.state();
  Outcome outcome{.state = tree_states_.number_of(after),
                  .kept_native = static_cast<std::uint32_t>(kept.native),
                  .kept_python = static_cast<std::uint32_t>(kept.python),
                  .native = static_cast<std::uint32_t>(after.native.size()),
                  .python = static_cast<std::uint32_t>(after.python.size())};
  entered_.clear();
  for (std::size_t i = kept.native; i < after.native.size(); ++i) {
    const CallTreeRules::LiveFrame& frame = after.native[i];
    EnteredFrame& entered = entered_.emplace_back();
    entered = {.slot = frame.stack_pointer, .path = frame.node, .counts = !repeats(after, i)};
    if (frame.function == kNone) continue;
    const FunctionRole& role = shared_.functions.role(frame.function);
    entered.takes_data = role.region_data;
    entered.opens_region = role.opens_region;
  }
  for (std::size_t i = kept.python; i < after.python.size(); ++i) {
    const CallTreeRules::LivePython& frame = after.python[i];
    entered_.push_back(
        {.slot = frame.height, .path = frame.node, .step = frame.step, .counts = frame.is_frame});
  }
  if (outcome.native != outcome.kept_native + 1 || outcome.python != outcome.kept_python ||
      entered_[0].slot != slot)
    return outcome;
  outcome.entered = entered_[0].path;
  outcome.enters_one = true;
  outcome.counts = entered_[0].counts;
  outcome.takes_data = entered_[0].takes_data;
  outcome.opens_region = entered_[0].opens_region;
  return outcome;
}

// Applies the cached outcome of an event. `slot` is the event's stack pointer.
inline void ThreadCounter::repeat(const Outcome& outcome, std::uint64_t slot, std::uint64_t time) {
  rules_current_ = false;
  if (outcome.rules != 0) count_again(outcome.rules, rules_.statistics());
  move_to(outcome, slot, outcome.enters_one ? nullptr : tree_states_.frames(outcome), time);
}

// A call_record whose function is not entered belongs to its caller.
inline void ThreadCounter::settle_call() {
  if (!call_on_its_way_) return;
  const CallOnItsWay call = *call_on_its_way_;
  call_on_its_way_.reset();
  shared_.paths.count_record(call.caller, call.record, 0);
}

// Settles the pending call_record, if any, unless the next event enters its function. `slot` is
// that event's stack pointer.
inline void ThreadCounter::settle_call_before(bool enters, std::uint64_t slot) {
  if (call_on_its_way_ && (!enters || slot != call_on_its_way_->stack_pointer)) settle_call();
}

// Assigns the pending call_record to the entry in its return slot, which has just been counted.
inline void ThreadCounter::end_way() {
  if (!call_on_its_way_) return;
  const std::uint32_t record = call_on_its_way_->record;
  call_on_its_way_.reset();
  if (native_.empty() || !native_.back().is_counted()) return;
  shared_.paths.count_record(native_.back().frame.path, record, 0);
}

bool ThreadCounter::add_known(const recording::Event& raw, std::uint64_t time) {
  if (may_be_known(raw)) return add_known_step(raw, time);
  if (body_on_its_way_) return false;
  switch (raw.id) {
    case recording::kOpBegin:
      return begin_known_op(raw, time);
    case recording::kOpEnd:
      return end_known_op(raw, time);
    case recording::kArguments:
      take_arguments(raw.line, raw.stack_pointer, raw.return_address);
      return true;
    case recording::kCallRecord:
      if (raw.line >= shared_.known_records) return false;
      take_call(raw.line, raw.stack_pointer, raw.return_address);
      return true;
    default:
      return false;
  }
}

// Same, for the kinds of may_be_known().
inline bool ThreadCounter::add_known_step(const recording::Event& raw, std::uint64_t time) {
  if (body_on_its_way_ || now_ == kUnnumbered) return false;
  const Outcome* const outcome = tree_states_.find({now_, key_of(raw)});
  if (outcome == nullptr) return false;
  const bool is_caller = recording::is_caller(raw.id);
  if (!is_caller) settle_call_before(raw.id < recording::kFirstPythonEvent, raw.stack_pointer);
  if (raw.stack_pointer != 0) near_ = raw.stack_pointer;
  repeat(*outcome, raw.stack_pointer, time);
  if (!is_caller) end_way();
  return true;
}

std::size_t ThreadCounter::add_known(std::span<const recording::Event> events,
                                     const TickClock& clock, std::uint64_t until) {
  std::size_t count = 0;
  for (; count < events.size(); ++count) {
    const std::uint64_t ticks = load_shared(events[count].ticks);
    if (ticks == 0 || ticks < clock.started().ticks) break;
    const std::uint64_t time = clock.nanoseconds(ticks);
    recording::Event event;  // A copy, which can't change after it was checked.
    std::memcpy(&event, &events[count], sizeof event);
    if (time > until || !add_known(event, time)) break;
  }
  return count;
}

// Applies an event: its cached outcome if there is one, else the rules.
void ThreadCounter::apply(const Event& event, const EventKey& key) {
  const TransitionKey transition{now_, key};
  const bool enters = event.kind != EventKind::caller;
  const Outcome* const known = now_ == kUnnumbered ? nullptr : tree_states_.find(transition);
  if (known != nullptr) {
    repeat(*known, key.stack_pointer, event.time);
    if (enters) end_way();
    return;
  }
  if (!rules_current_) rules_.set_state(state());
  rules_current_ = true;
  const bool deep = now_ == kUnnumbered;
  tree_states_.count_miss();
  depends_on_time_ = false;
  rules_.take_kept();
  const CallTreeStatistics before = rules_.statistics();
  rules_.add(event);
  Outcome outcome = outcome_of(rules_.take_kept(), key.stack_pointer);
  outcome.rules = changed_statistics(before, rules_.statistics());
  if (!depends_on_time_ && !deep && outcome.state != kUnnumbered)
    tree_states_.add(transition, outcome, entered_);
  move_to(outcome, key.stack_pointer, entered_.data(), event.time);
  if (enters) end_way();
  limit_cache();
}

// Drops the cache if it has become too large.
void ThreadCounter::limit_cache() {
  const std::size_t bytes = tree_states_.bytes();
  shared_.cache_bytes += bytes - cache_bytes_;
  cache_bytes_ = bytes;
  if (bytes <= kMaxCacheBytes && shared_.cache_bytes <= shared_.budget->for_memories()) return;
  now_ = tree_states_.keep_only(now_);
  shared_.cache_bytes -= std::exchange(cache_bytes_, 0);
}

void ThreadCounter::add_step(const Event& event, const EventKey& key) {
  if (event.kind != EventKind::caller)
    settle_call_before(event.kind == EventKind::function_entry, event.stack_pointer);
  if (is_on_stack(event)) near_ = event.stack_pointer;
  if (event.kind == EventKind::node_begin || event.kind == EventKind::node_end) {
    caused_by_ = event.kind == EventKind::node_begin ? forward_of(event) : kNone;
    // Every node has its own number; its name and its creator identify it here.
    apply(event, {key.id, event.what, 0, caused_by_});
    return;
  }
  apply(event, key);
}

// Enters the region's body that was held back until `next`, which is its argument or another event.
void ThreadCounter::enter_body(const Event& next) {
  if (!body_on_its_way_) return;
  const auto [event, key] = *body_on_its_way_;
  body_on_its_way_.reset();
  if (next.kind == EventKind::arguments &&
      next.line == static_cast<std::uint32_t>(event.stack_pointer))
    region_data_ = next.stack_pointer;
  add_step(event, key);
  region_data_.reset();
}

// Records that the op record of an event exists.
void ThreadCounter::take_record(const Event& event) {
  shared_.known_records = std::max(shared_.known_records, event.what + 1);
}

void ThreadCounter::begin_op(const Event& event, const EventKey& key) {
  const Event place = placed(event, near_);
  const std::uint32_t op = shared_.functions.op_of(event.what);
  if (event.what >= shared_.ops.size()) shared_.ops.resize(event.what + std::size_t{1});
  shared_.ops[event.what].op = op;
  // A record is identified by its op, if it has one.
  const bool is_op = op != kNone;
  apply(place, {key.id, is_op ? op : event.what, place.stack_pointer, is_op ? 1U : 0U});
  open_op(event.what, event.return_address & kThreadNumber, event.stack_pointer);
}

// Begins an op whose begin in this state has been seen before. Returns false for others.
bool ThreadCounter::begin_known_op(const recording::Event& raw, std::uint64_t time) {
  if (now_ == kUnnumbered || raw.line >= shared_.ops.size()) return false;
  const std::uint32_t op = shared_.ops[raw.line].op;
  if (op == kNone) return false;
  const std::uint64_t place = place_of_op(raw.return_address, near_);
  const Outcome* const outcome = tree_states_.find({now_, {raw.id, op, place, 1}});
  if (outcome == nullptr) return false;
  settle_call();
  repeat(*outcome, place, time);
  open_op(raw.line, raw.return_address & kThreadNumber, raw.stack_pointer);
  return true;
}

// Opens the op that has just begun.
void ThreadCounter::open_op(std::uint32_t record, std::uint64_t thread, std::uint64_t sequence) {
  ++shared_.ops[record].calls;
  const EnteredFrame& begun = python_.back().frame;
  OpenOp opened{python_.size(), begun.path, record, false};
  if (begun.counts || begun.step != 0) {
    // The frame that has the op's times: its step's, or its own.
    const Live& live = begun.step != 0 ? native_[begun.step - 1] : python_.back();
    opened.path = live.frame.path;
    opened.counted = live.is_counted();
  } else {
    opened.counted = opened.path != kNone && shared_.paths.usage(opened.path).chosen;
  }
  if (sequence != kNoSequence && opened.path != kNone)
    shared_.forward_ops.set({thread, sequence}, opened.path);
  open_ops_.push_back(opened);
}

void ThreadCounter::end_op(const Event& event, const EventKey& key) {
  const Event place = placed(event, near_);
  const std::optional<std::size_t> ending = CallTreeRules::op_that_ends(state(), place);
  if (!ending) return;
  end_op_at(*ending, event.what, event.time);
  apply(place, {key.id, 0, place.stack_pointer, 0});
}

// Ends an op whose end in this state has been seen before. Returns false for others.
bool ThreadCounter::end_known_op(const recording::Event& raw, std::uint64_t time) {
  if (now_ == kUnnumbered || raw.line >= shared_.known_records) return false;
  const std::uint64_t place = place_of_op(raw.return_address, near_);
  const Outcome* const outcome = tree_states_.find({now_, {raw.id, 0, place, 0}});
  if (outcome == nullptr) return false;
  settle_call();
  end_op_at(outcome->kept_python, raw.line, time);  // It is the outermost that ends.
  repeat(*outcome, place, time);
  return true;
}

// Closes the op python_[ending], and those inside it.
void ThreadCounter::end_op_at(std::size_t ending, std::uint32_t results, std::uint64_t time) {
  while (!open_ops_.empty() && open_ops_.back().height > ending + 1) close_op(0);
  const std::uint32_t step = python_[ending].frame.step;
  (step != 0 ? native_[step - 1] : python_[ending]).end = time;
  if (!open_ops_.empty() && open_ops_.back().height == ending + 1) close_op(results);
}

// Closes the innermost open op.
void ThreadCounter::close_op(std::uint32_t results) {
  const OpenOp& closed = open_ops_.back();
  if (closed.counted) shared_.paths.count_record(closed.path, closed.record, results);
  open_ops_.pop_back();
}

// Records the arguments of the function whose return slot ends in `slot`.
void ThreadCounter::take_arguments(std::uint32_t slot, std::uint64_t first, std::uint64_t second) {
  for (std::size_t i = native_.size(); i > 0; --i) {
    const Live& live = native_[i - 1];
    if (static_cast<std::uint32_t>(live.frame.slot) != slot) continue;
    if (live.frame.takes_data) {
      if (live.frame.opens_region)
        shared_.regions.open(second, {live.frame.path, number_, counting_});
      return;
    }
    if (live.is_counted()) shared_.paths.count_arguments(live.frame.path, first, second);
    return;
  }
}

// Gives a value to the call that returned it: the one with the same return slot and address that
// has not returned yet. Of functions that reached each other by tail calls, it is the outermost
// one. There is none if the call was not recorded, or ended in another way (an exception, longjmp)
// and its frame is gone.
void ThreadCounter::add_returned(const Event& event) {
  const auto& frames = state().native;
  for (std::size_t i = 0; i < std::min(native_.size(), frames.size()); ++i) {
    Live& live = native_[i];
    if (frames[i].stack_pointer != event.stack_pointer) continue;
    if (frames[i].return_address != event.return_address || std::exchange(live.returned, true))
      return;
    if (live.is_counted())
      shared_.paths.count_returned(live.frame.path, event.what | std::uint64_t{event.line} << 32);
    return;
  }
}

// `ended` is the highest return slot of a call that has ended.
void ThreadCounter::take_call(std::uint32_t record, std::uint64_t stack_pointer,
                              std::uint64_t ended) {
  settle_call();
  if (stack_pointer != 0) {
    const Live* const caller = innermost(std::max(stack_pointer, ended));
    const bool counted = caller != nullptr && caller->is_counted();
    call_on_its_way_ = {stack_pointer, record, counted ? caller->frame.path : kNone};
    return;
  }
  if (native_.empty() || !native_.back().is_counted()) return;
  shared_.paths.count_record(native_.back().frame.path, record, 0);
}

// Returns the innermost frame that has not ended when the stack reaches down to `stack_pointer`.
// (The end of a function is not recorded.)
const ThreadCounter::Live* ThreadCounter::innermost(std::uint64_t stack_pointer) const {
  std::size_t height = native_.size();
  while (height > 0 && native_[height - 1].frame.slot <= stack_pointer) --height;
  if (!python_.empty() && python_.back().frame.slot >= height) return &python_.back();
  return height == 0 ? nullptr : &native_[height - 1];
}

void ThreadCounter::add_device_call(const Event& event) {
  const Live* const caller = innermost(event.stack_pointer);
  if (caller == nullptr && shared_.selection.everything()) return;
  const bool counted = caller != nullptr && caller->is_counted();
  shared_.device_calls.set(event.return_address, counted ? caller->frame.path : kNone);
}

void ThreadCounter::add_activity(const Event& event) {
  const auto activity = recording::unpack_activity(event.stack_pointer, event.return_address);
  const std::uint32_t* const path = shared_.device_calls.find(activity.call);
  if (path == nullptr) ++shared_.untied;
  if (path != nullptr && *path != kNone)
    shared_.paths.count_activity(*path, event.what, activity.duration);
}

// Returns the path of the op that created a node, or kNone.
std::uint32_t ThreadCounter::forward_of(const Event& node) const {
  if (node.stack_pointer == kNoSequence) return kNone;
  const std::uint32_t* const path =
      shared_.forward_ops.find({node.return_address, node.stack_pointer});
  return path == nullptr ? kNone : *path;
}

}  // namespace optrace
