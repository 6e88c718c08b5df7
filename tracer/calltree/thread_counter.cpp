#include "tracer/calltree/thread_counter.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "tracer/calltree/shared_region.h"
#include "tracer/probes/function_roles.h"

namespace optrace {
namespace {

constexpr std::uint64_t kNoSequence = std::numeric_limits<std::uint64_t>::max();
// Selects the thread number in return_address of an op's event: the other half is a place.
constexpr std::uint64_t kThreadNumber = 0xFFFF'FFFF;

// A thread's cache is dropped when it takes more than this.
constexpr std::size_t kMaxCacheBytes = 64 << 20;

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

}  // namespace

void ThreadCounter::add_initial(const InitialFrame& frame) {
  rules_.take_kept();
  rules_.add_initial(frame);
  near_ = frame.stack_pointer;
  move_to(outcome_of({native_.size(), python_.size()}), 0);
}

void ThreadCounter::add(const Event& event, const EventKey& key) {
  enter_body(event);
  switch (event.kind) {
    case EventKind::op_begin:
      settle_call();
      begin_op(event, key);
      return;
    case EventKind::op_end:
      settle_call();
      end_op(event, key);
      return;
    case EventKind::arguments:
      note_arguments(event);
      return;
    case EventKind::call_record:
      note_call(event);
      return;
    case EventKind::device_call:
      note_device_call(event);
      return;
    case EventKind::device_activity:
      note_activity(event);
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
  for (const Live& live : native_) leave(live, time);
  for (const Live& live : python_) leave(live, time);
}

std::uint32_t ThreadCounter::add(const CallTreeRules::Node& node, const Event* event) {
  bool jump = node.tail_call;
  std::uint32_t what = node.what;
  if (node.kind == PathKind::function && shared_.functions.is_plumbing(node.what)) {
    if (node.shown_under != kNone && shared_.paths[node.shown_under].is_plumbing())
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
                     .thread = 0};
  if (event != nullptr && node.kind == PathKind::function && what != kNone &&
      (shared_.functions.role(what).region_body || shared_.regions.is_body(what)))
    join_region(*event, key);
  if (key.parent == kNone) key.thread = number_;
  return shared_.paths.add(key, number_);
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
    path.line = 0;
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
}

void ThreadCounter::enter(Live& live, std::uint32_t path, std::uint64_t time) {
  const PathUsage& entered = shared_.paths.usage(path);
  live = {.path = path};
  if (entered.opens) shared_.regions.add_entry(shared_.paths[path].what, {time, number_, path});
  if (entered.chosen_op) counting_ = shared_.selection.includes_call(shared_.selected_op_calls++);
  if (!entered.chosen || (!counting_ && !shared_.selection.everything())) return;
  live.start = time;
  if (shared_.observer != nullptr) live.call = shared_.observer->begin(number_, path, time);
  shared_.paths.count_call(path, number_);
}

void ThreadCounter::leave(const Live& live, std::uint64_t time) {
  if (!live.is_counted()) return;
  const std::uint64_t end = live.end != 0 ? live.end : time;
  shared_.paths.usage(live.path).add_time(end > live.start ? end - live.start : 0);
  if (live.call != kNone) shared_.observer->end(number_, live.call, end);
}

// Returns true if the frame continues its caller's path. A path that stands for several frames is
// entered once, with the first.
bool ThreadCounter::repeats(const CallTreeRules::State& state, std::size_t native) const {
  return native > 0 && state.native[native - 1].node == state.native[native].node &&
         shared_.paths[state.native[native].node].is_plumbing();
}

void ThreadCounter::enter_all(const Outcome& outcome, std::uint64_t time) {
  const CallTreeRules::State& after = state();
  for (std::size_t i = outcome.kept_native; i < after.native.size(); ++i) {
    if (repeats(after, i))
      native_[i] = {.path = after.native[i].node};
    else
      enter(native_[i], after.native[i].node, time);
  }
  for (std::size_t i = outcome.kept_python; i < after.python.size(); ++i) {
    if (after.python[i].is_frame)
      enter(python_[i], after.python[i].node, time);
    else
      python_[i] = {.path = after.python[i].node};
  }
}

// Ends the frames that are not kept, and enters the new ones.
void ThreadCounter::move_to(const Outcome& outcome, std::uint64_t time) {
  while (!open_ops_.empty() && open_ops_.back().height > outcome.kept_python)
    close_op(0);  // Its end was not recorded.
  for (std::size_t i = native_.size(); i > outcome.kept_native; --i) leave(native_[i - 1], time);
  for (std::size_t i = python_.size(); i > outcome.kept_python; --i) leave(python_[i - 1], time);
  now_ = outcome.state;
  native_.resize(outcome.native);
  python_.resize(outcome.python);
  if (outcome.entered != kNone)
    enter(native_.back(), outcome.entered, time);
  else if (outcome.native > outcome.kept_native || outcome.python > outcome.kept_python)
    enter_all(outcome, time);
}

// Returns the effect of an event after which `kept` frames are still live.
Outcome ThreadCounter::outcome_of(const CallTreeRules::Kept& kept) {
  const CallTreeRules::State& after = rules_.state();
  Outcome outcome{.state = tree_states_.number_of(after),
                  .kept_native = static_cast<std::uint32_t>(kept.native),
                  .kept_python = static_cast<std::uint32_t>(kept.python),
                  .native = static_cast<std::uint32_t>(after.native.size()),
                  .python = static_cast<std::uint32_t>(after.python.size())};
  const bool one =
      outcome.native == outcome.kept_native + 1 && outcome.python == outcome.kept_python;
  if (one && !repeats(after, kept.native)) outcome.entered = after.native.back().node;
  return outcome;
}

// Applies the cached outcome of the transition. Returns false if there is none.
bool ThreadCounter::repeat(const TransitionKey& transition, std::uint64_t time) {
  if (now_ == kUnnumbered) return false;
  const Outcome* const remembered = tree_states_.find(transition);
  if (remembered == nullptr) return false;
  rules_current_ = false;
  if (remembered->rules != 0) count_again(remembered->rules, rules_.statistics());
  move_to(*remembered, time);
  return true;
}

std::size_t ThreadCounter::add_known(std::span<const recording::Event> events,
                                     const TickClock& clock, std::uint64_t until) {
  std::size_t count = 0;
  for (; count < events.size(); ++count) {
    const std::uint64_t ticks = load_shared(events[count].ticks);
    if (ticks == 0 || ticks < clock.start_ticks()) break;
    const std::uint64_t time = clock.nanoseconds(ticks);
    recording::Event event;  // A copy, which can't change after it was checked.
    std::memcpy(&event, &events[count], sizeof event);
    if (time > until || !may_be_known(event) || !add_known(key_of(event), time)) break;
  }
  return count;
}

// Applies an event: its cached outcome if there is one, else the rules.
void ThreadCounter::apply(const Event& event, const EventKey& key) {
  const TransitionKey transition{now_, key};
  const bool enters = event.kind != EventKind::caller;
  if (repeat(transition, event.time)) {
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
  Outcome outcome = outcome_of(rules_.take_kept());
  outcome.rules = changed_statistics(before, rules_.statistics());
  if (!depends_on_time_ && !deep && outcome.state != kUnnumbered)
    tree_states_.add(transition, outcome);
  move_to(outcome, event.time);
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
  if (call_on_its_way_ && event.kind != EventKind::caller &&
      (event.kind != EventKind::function_entry ||
       event.stack_pointer != call_on_its_way_->event.stack_pointer))
    settle_call();
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

void ThreadCounter::begin_op(const Event& event, const EventKey& key) {
  const Event place = placed(event, near_);
  const std::uint32_t op = shared_.functions.op_of(event.what);
  // A record is identified by its op, if it has one.
  const bool is_op = op != kNone;
  apply(place, {key.id, is_op ? op : event.what, place.stack_pointer, is_op ? 1U : 0U});
  const std::size_t height = state().python.size();
  const CallTreeRules::LivePython& begun = state().python[height - 1];
  const Live& live = live_of(begun, height);
  const bool is_frame = begun.is_frame || begun.step != 0;
  OpenOp opened{height, is_frame ? live.path : begun.node, event.what, false};
  opened.counted = is_frame ? live.is_counted()
                            : opened.path != kNone && shared_.paths.usage(opened.path).chosen;
  if (event.stack_pointer != kNoSequence && opened.path != kNone)
    shared_.forward_ops.set({event.return_address & kThreadNumber, event.stack_pointer},
                            opened.path);
  open_ops_.push_back(opened);
}

void ThreadCounter::end_op(const Event& event, const EventKey& key) {
  const Event place = placed(event, near_);
  const std::optional<std::size_t> ending = CallTreeRules::op_that_ends(state(), place);
  if (!ending) return;
  while (!open_ops_.empty() && open_ops_.back().height > *ending + 1) close_op(0);
  live_of(state().python[*ending], *ending + 1).end = event.time;
  if (!open_ops_.empty() && open_ops_.back().height == *ending + 1) close_op(event.what);
  apply(place, {key.id, 0, place.stack_pointer, 0});
}

// Closes the innermost open op.
void ThreadCounter::close_op(std::uint32_t results) {
  const OpenOp& closed = open_ops_.back();
  if (closed.counted) shared_.paths.count_record(closed.path, closed.record, results);
  open_ops_.pop_back();
}

// Returns the frame that has the op's times: its step's, its own, or one that is not counted.
ThreadCounter::Live& ThreadCounter::live_of(const CallTreeRules::LivePython& op,
                                            std::size_t height) {
  return op.step != 0 ? native_[op.step - 1] : python_[height - 1];
}

void ThreadCounter::note_arguments(const Event& event) {
  const CallTreeRules::State& now = state();
  for (std::size_t i = now.native.size(); i > 0; --i) {
    const CallTreeRules::LiveFrame& frame = now.native[i - 1];
    if (static_cast<std::uint32_t>(frame.stack_pointer) != event.line) continue;
    if (frame.function != kNone && shared_.functions.role(frame.function).region_data) {
      if (shared_.functions.role(frame.function).opens_region)
        shared_.regions.open(event.return_address, {frame.node, number_, counting_});
      return;
    }
    if (native_[i - 1].is_counted())
      shared_.paths.count_arguments(frame.node, event.stack_pointer, event.return_address);
    return;
  }
}

void ThreadCounter::note_call(const Event& event) {
  settle_call();
  if (event.stack_pointer != 0) {
    const Live* const caller = innermost(event.stack_pointer);
    const bool counted = caller != nullptr && caller->is_counted();
    call_on_its_way_ = {event, counted ? caller->path : kNone};
    return;
  }
  if (native_.empty() || !native_.back().is_counted()) return;
  shared_.paths.count_record(native_.back().path, event.what, 0);
}

// A call_record whose function is not entered belongs to its caller.
void ThreadCounter::settle_call() {
  if (!call_on_its_way_) return;
  const CallOnItsWay call = *call_on_its_way_;
  call_on_its_way_.reset();
  shared_.paths.count_record(call.caller, call.event.what, 0);
}

// Assigns the pending call_record to the entry in its return slot, which has just been counted.
void ThreadCounter::end_way() {
  if (!call_on_its_way_) return;
  const Event event = call_on_its_way_->event;
  call_on_its_way_.reset();
  if (native_.empty() || !native_.back().is_counted()) return;
  shared_.paths.count_record(native_.back().path, event.what, 0);
}

// Returns the innermost frame that has not ended when the stack reaches down to `stack_pointer`.
// (The end of a function is not recorded.)
const ThreadCounter::Live* ThreadCounter::innermost(std::uint64_t stack_pointer) const {
  const CallTreeRules::State& now = state();
  std::size_t height = now.native.size();
  while (height > 0 && now.native[height - 1].stack_pointer <= stack_pointer) --height;
  if (!now.python.empty() && now.python.back().height >= height) return &python_.back();
  return height == 0 ? nullptr : &native_[height - 1];
}

void ThreadCounter::note_device_call(const Event& event) {
  const Live* const caller = innermost(event.stack_pointer);
  if (caller == nullptr && shared_.selection.everything()) return;
  const bool counted = caller != nullptr && caller->is_counted();
  shared_.device_calls.set(event.return_address, counted ? caller->path : kNone);
}

void ThreadCounter::note_activity(const Event& event) {
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
