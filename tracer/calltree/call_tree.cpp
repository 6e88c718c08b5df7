#include "tracer/calltree/call_tree.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "pytorch/functions/function_roles.h"

namespace optrace {

std::uint64_t place_of_op(std::uint64_t recorded, std::uint64_t near) {
  constexpr unsigned kEighth = 3;
  constexpr std::uint64_t kWindow = std::uint64_t{1} << (32 + kEighth);
  const std::uint64_t low = (recorded >> 32) << kEighth;
  if (low == 0 || near == 0) return 0;
  std::uint64_t place = (near & ~(kWindow - 1)) | low;
  if (place > near && place - near > kWindow / 2 && place >= kWindow) place -= kWindow;
  if (place < near && near - place > kWindow / 2) place += kWindow;
  return place;
}

Event placed(const Event& op_event, std::uint64_t near) {
  Event event = op_event;
  event.stack_pointer = place_of_op(op_event.return_address, near);
  event.return_address = 0;
  return event;
}

TraceCallTreeFunctions::TraceCallTreeFunctions(const Trace& trace)
    : ops_(trace.op_records),
      identities_(trace.functions.size()),
      probed_(trace.functions.size()),
      enters_itself_(trace.functions.size()),
      evaluation_loop_(trace.functions.size()),
      agent_(trace.functions.size()),
      begins_threads_(trace.functions.size()),
      runs_nodes_(trace.functions.size()),
      jumps_indirectly_(trace.functions.size()),
      tail_calls_(trace.functions.size()) {
  // Owners of split-off parts are looked up by name. If local functions share a name, the source
  // file decides.
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> by_symbol;
  bool has_parts = false;
  roles_.reserve(trace.functions.size());
  for (const TraceFunction& function : trace.functions) roles_.push_back(role_of(function.symbol));
  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    identities_[i] = i;
    has_parts = has_parts || without_cold_suffix(function.symbol) != function.symbol;
  }
  if (has_parts)
    for (std::uint32_t i = 0; i < trace.functions.size(); ++i)
      by_symbol[trace.functions[i].symbol].push_back(i);

  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    const std::string_view owner = without_cold_suffix(function.symbol);
    if (owner == function.symbol) continue;
    const auto found = by_symbol.find(owner);
    if (found == by_symbol.end()) continue;
    for (const std::uint32_t candidate : found->second) {
      const TraceFunction& other = trace.functions[candidate];
      if (other.module == function.module && other.source_file == function.source_file)
        identities_[i] = candidate;
    }
  }

  for (std::uint32_t i = 0; i < trace.functions.size(); ++i) {
    const TraceFunction& function = trace.functions[i];
    const std::uint32_t owner = identities_[i];
    const auto set = [&](std::vector<std::uint8_t>& flags, bool value) {
      if (value) flags[i] = flags[owner] = 1;
    };
    set(probed_, function.probed);
    set(enters_itself_, function.enters_itself);
    set(jumps_indirectly_, function.jumps_indirectly);
    const FunctionRole& role = roles_[i];
    set(evaluation_loop_, role.evaluation_loop);
    set(runs_nodes_, role.runs_nodes);
    const std::string_view path = function.module < trace.modules.size()
                                      ? std::string_view(trace.modules[function.module].path)
                                      : std::string_view();
    set(begins_threads_, optrace::begins_threads(function.symbol, path));
    set(agent_, is_own_library(path));
    for (const std::uint32_t target : function.tail_calls) {
      if (target >= identities_.size()) continue;
      tail_calls_[owner].push_back(identities_[target]);
    }
  }
  for (std::vector<std::uint32_t>& targets : tail_calls_) std::sort(targets.begin(), targets.end());
}

OpStep TraceCallTreeFunctions::op_step(std::uint32_t function, std::uint32_t record) const {
  return step_of(roles_[function], op_name(record));
}

bool TraceCallTreeFunctions::jumps_directly(std::uint32_t from, std::uint32_t to) const {
  return std::binary_search(tail_calls_[from].begin(), tail_calls_[from].end(), to);
}

bool TraceCallTreeFunctions::can_jump(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 || jumps_directly(from, to);
}

bool TraceCallTreeFunctions::jump_is_indirect(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 && !jumps_directly(from, to);
}

CallTreeRules::Kept CallTreeRules::take_kept() {
  return std::exchange(kept_, {state_.native.size(), state_.python.size()});
}

void CallTreeRules::set_state(const State& state) {
  for (const LiveFrame& frame : state_.native) count_live(frame.function, -1);
  state_ = state;
  for (const LiveFrame& frame : state_.native) count_live(frame.function, 1);
}

void CallTreeRules::count_live(std::uint32_t function, int change) {
  if (function == kNone) return;
  if (function >= live_counts_.size()) live_counts_.resize(function + std::size_t{1});
  live_counts_[function] += static_cast<std::uint32_t>(change);
}

void CallTreeRules::push(const LiveFrame& frame) {
  state_.native.push_back(frame);
  count_live(frame.function, 1);
}

void CallTreeRules::pop() {
  count_live(state_.native.back().function, -1);
  state_.native.pop_back();
  kept_.native = std::min(kept_.native, state_.native.size());
  while (!state_.python.empty() && state_.python.back().height > state_.native.size()) pop_python();
}

void CallTreeRules::pop_to(std::size_t height) {
  while (state_.native.size() > height) pop();
}

// Called when something happens in Python code whose evaluation loop is native[height - 1]. The
// frames inside that loop have ended, except for the CPython functions that reported the event
// (call_trace etc.): they continue and may still be callers.
void CallTreeRules::doubt_above(std::size_t height) {
  for (std::size_t i = height; i < state_.native.size(); ++i) state_.native[i].doubtful = true;
}

void CallTreeRules::pop_python() {
  const LivePython& frame = state_.python.back();
  // If the loop has ended, its list of Python frames is gone too.
  if (frame.in_loop && frame.height <= state_.native.size()) {
    LiveFrame& loop = state_.native[frame.height - 1];
    loop.innermost_python = frame.outside;
    loop.python_ended = !loop.initial && frame.outside == kNone;
  }
  state_.python.pop_back();
  kept_.python = std::min(kept_.python, state_.python.size());
}

std::size_t CallTreeRules::initial_height() const {
  std::size_t height = 0;
  while (height < state_.native.size() && state_.native[height].initial) ++height;
  return height;
}

void CallTreeRules::add_initial(const InitialFrame& frame) {
  const std::uint32_t parent = state_.native.empty() ? kNone : state_.native.back().node;
  const std::uint32_t node = nodes_.add(
      {.kind = PathKind::initial, .what = frame.function, .parent = parent, .shown_under = parent},
      nullptr);
  push({.node = node,
        .function = frame.function == kNone ? kNone : functions_.identity(frame.function),
        .stack_pointer = frame.stack_pointer,
        .return_address = frame.return_address,
        .initial = true});
}

std::uint32_t CallTreeRules::add(const Event& event) {
  switch (event.kind) {
    case EventKind::function_entry:
      return add_entry(event);
    case EventKind::caller:
      return add_caller(event);
    case EventKind::node_begin:
      state_.asserted = 0;
      return begin_node(event);
    case EventKind::node_end:
      end_node();
      return kNone;
    case EventKind::python_position:
      note_position(event);
      return kNone;
    case EventKind::op_begin:
      return begin_op(event);
    case EventKind::op_end:
      end_op(event);
      return kNone;
    case EventKind::arguments:
    case EventKind::call_record:
    case EventKind::device_call:
    case EventKind::device_activity:
    case EventKind::returned:
      return kNone;  // They describe frames and enter none.
    default:
      break;
  }
  state_.asserted = 0;
  while (!state_.native.empty() && state_.native.back().stack_pointer < event.stack_pointer) pop();
  end_ops_below(event.stack_pointer);
  switch (event.kind) {
    case EventKind::python_call:
      return add_python_call(event);
    case EventKind::python_ran:
      leave_native_frames();
      return kNone;
    case EventKind::python_return:
      end_python_call(event);
      return kNone;
    case EventKind::builtin_call:
      leave_native_frames();
      current_builtin() = {event.what, event.line};
      return kNone;
    default:
      leave_native_frames();
      current_builtin() = {};
      return kNone;
  }
}

CallTreeRules::BuiltinCall& CallTreeRules::current_builtin() {
  return state_.python.empty() ? state_.outer_builtin : state_.python.back().builtin;
}

std::uint32_t CallTreeRules::current_line() {
  if (const std::uint32_t line = current_builtin().line; line != 0) return line;
  return state_.python.empty() ? state_.outer_line : state_.python.back().line;
}

// If the innermost frame's start was not recorded, the position does not belong to the innermost
// known frame, whose line is then unknown. A frame that has moved on has left the functions that it
// called.
void CallTreeRules::note_position(const Event& event) {
  const auto innermost =
      std::find_if(state_.python.rbegin(), state_.python.rend(),
                   [](const LivePython& frame) { return frame.kind == PathKind::python; });
  if (innermost == state_.python.rend()) {
    state_.outer_line = event.line;
    return;
  }
  const std::uint32_t line = innermost->what == event.what ? event.line : 0;
  if (line == innermost->line) return;
  innermost->line = line;
  if (!innermost->in_loop) return;
  doubt_above(innermost->height);
  for (std::size_t i = innermost->height; i < state_.native.size(); ++i)
    state_.native[i].left = true;
}

// Returns the size of `native` up to and including the innermost evaluation loop that still runs
// Python; 0 if there is none.
std::size_t CallTreeRules::running_loop() const {
  for (std::size_t i = state_.native.size(); i > 0; --i) {
    const LiveFrame& frame = state_.native[i - 1];
    if (frame.function != kNone && functions_.is_evaluation_loop(frame.function) &&
        !frame.python_ended)
      return i;
  }
  return 0;
}

std::size_t CallTreeRules::outermost_loop() const {
  for (std::size_t i = 0; i < state_.native.size(); ++i) {
    const std::uint32_t function = state_.native[i].function;
    if (function != kNone && functions_.is_evaluation_loop(function)) return i + 1;
  }
  return 0;
}

// Without a probed loop, native frames inside a Python frame are known to have ended only because
// the Python frame runs. (With a probed loop, the slot and caller of its next callee show this, and
// the functions that call the hook from the loop stay live.)
void CallTreeRules::leave_native_frames() {
  if (const std::size_t loop = running_loop(); loop != 0) doubt_above(loop);
  if (state_.python.empty()) return;
  const LivePython& innermost = state_.python.back();
  if (innermost.kind == PathKind::python && !innermost.in_loop) pop_to(innermost.height);
}

// Adds a Python function that was live when recording began. It runs in the outermost loop, outside
// of all frames whose start was recorded.
std::uint32_t CallTreeRules::add_live_python(const Event& event) {
  const std::size_t loop = outermost_loop();
  if (loop == 0) return kNone;
  LiveFrame& host = state_.native[loop - 1];
  Node node{.kind = PathKind::python, .what = event.what, .line = event.line};
  node.parent = host.node;
  node.shown_under = host.innermost_python == kNone ? host.node : host.innermost_python;
  LivePython frame{.what = event.what};
  frame.height = loop;
  frame.in_loop = true;
  frame.outside = host.innermost_python;
  frame.node = nodes_.add(node, &event);
  host.innermost_python = frame.node;
  std::vector<LivePython>& python = state_.python;
  const auto at = std::ranges::upper_bound(python, loop, {}, &LivePython::height);
  kept_.python = std::min(kept_.python, static_cast<std::size_t>(at - python.begin()));
  python.insert(at, frame);
  return frame.node;
}

std::uint32_t CallTreeRules::add_python_call(const Event& event) {
  if (event.stack_pointer == 0) return add_live_python(event);
  std::vector<LivePython>& python = state_.python;
  const std::size_t loop = running_loop();
  const std::size_t outer = python.empty() ? 0 : python.back().height;
  LivePython frame{.what = event.what};
  Node node{.kind = PathKind::python,
            .what = event.what,
            .line = event.line != 0 ? event.line : current_line()};
  if (loop != 0 && loop >= outer) {
    doubt_above(loop);
    const LiveFrame& host = state_.native[loop - 1];
    frame.in_loop = true;
    frame.outside = host.innermost_python;
    node.parent = host.node;
    node.shown_under = host.innermost_python == kNone ? host.node : host.innermost_python;
  } else {
    // No loop is probed. A builtin or a node may have called back; other native frames have ended.
    const bool called_back = !python.empty() && (python.back().builtin.what != kNone ||
                                                 python.back().kind != PathKind::python);
    if (!called_back) pop_to(std::max(outer, initial_height()));
    node.parent = state_.native.empty() ? kNone : state_.native.back().node;
    node.shown_under = !python.empty() && python.back().height == state_.native.size()
                           ? python.back().node
                           : node.parent;
  }
  frame.height = frame.in_loop ? loop : state_.native.size();
  frame.node = nodes_.add(node, &event);
  if (frame.in_loop) {
    // The loop runs, whatever has run outside of it since it was seen last.
    LiveFrame& host = state_.native[loop - 1];
    host.innermost_python = frame.node;
    host.doubtful = host.left = false;
    state_.asserted = loop;
  }
  python.push_back(frame);
  return frame.node;
}

void CallTreeRules::end_python_call(const Event& event) {
  std::vector<LivePython>& python = state_.python;
  const auto same = [&](const LivePython& frame) {
    return frame.kind == PathKind::python && frame.what == event.what;
  };
  const auto found = std::find_if(python.rbegin(), python.rend(), same);
  if (found == python.rend()) {
    ++statistics_.unmatched_python_events;
    return;
  }
  const std::size_t at = static_cast<std::size_t>(python.rend() - found) - 1;
  if (found->in_loop)
    doubt_above(found->height);
  else
    pop_to(found->height);
  while (python.size() > at) pop_python();
}

std::uint32_t CallTreeRules::begin_node(const Event& event) {
  // Frames above have ended: the engine's function reports the node before it calls anything else.
  std::size_t height = state_.native.size();
  while (height > 0 && (state_.native[height - 1].function == kNone ||
                        !functions_.runs_nodes(state_.native[height - 1].function)))
    --height;
  if (height != 0) pop_to(height);
  Node node{.kind = PathKind::node, .what = event.what};
  node.parent = state_.native.empty() ? kNone : state_.native.back().node;
  node.shown_under = !state_.python.empty() && state_.python.back().height == state_.native.size()
                         ? state_.python.back().node
                         : node.parent;
  LivePython frame{.kind = PathKind::node, .what = event.what};
  frame.height = state_.native.size();
  frame.node = nodes_.add(node, &event);
  state_.python.push_back(frame);
  return frame.node;
}

void CallTreeRules::end_node() {
  const auto found =
      std::find_if(state_.python.rbegin(), state_.python.rend(),
                   [](const LivePython& frame) { return frame.kind == PathKind::node; });
  if (found == state_.python.rend()) {
    ++statistics_.unmatched_python_events;
    return;
  }
  const std::size_t at = static_cast<std::size_t>(state_.python.rend() - found) - 1;
  while (state_.python.size() > at) pop_python();
}

// Ends ops whose end was not recorded: a RecordFunction below a running frame no longer exists.
void CallTreeRules::end_ops_below(std::uint64_t stack_pointer) {
  while (!state_.python.empty() && state_.python.back().kind == PathKind::op &&
         state_.python.back().place != 0 && state_.python.back().place < stack_pointer)
    pop_python();
}

// Returns the size of `native` up to and including the op's own step; 0 if it has none. A step
// enters one op, and only the dispatcher runs until that op begins.
std::size_t CallTreeRules::find_step(const Event& op) const {
  for (std::size_t height = state_.native.size(); height > 0; --height) {
    const LiveFrame& frame = state_.native[height - 1];
    const OpStep step =
        frame.function == kNone ? OpStep::none : functions_.op_step(frame.function, op.what);
    if (step == OpStep::of_it && !frame.op_begun) return height;
    if (step == OpStep::of_it || step == OpStep::of_other) return 0;
  }
  return 0;
}

std::uint32_t CallTreeRules::begin_op(const Event& event) {
  std::vector<LiveFrame>& native = state_.native;
  const std::uint64_t place = event.stack_pointer;
  while (!native.empty() && native.back().stack_pointer < place) pop();
  if (place != 0) end_ops_below(place + 1);
  const std::size_t step = find_step(event);
  if (step != 0) {
    native[step - 1].op_begun = true;
    // The functions that the dispatcher called for look-ups have ended.
    while (native.size() > step &&
           (native.back().function == kNone ||
            functions_.op_step(native.back().function, event.what) != OpStep::passed))
      pop();
  }
  const std::uint32_t op = functions_.op_of(event.what);
  Node node{.kind = PathKind::op, .what = op};
  if (!native.empty()) node.parent = node.shown_under = native.back().node;
  show_under_python(node, !native.empty());
  LivePython frame{.kind = PathKind::op, .is_frame = step == 0 && op != kNone, .what = op};
  frame.height = native.size();
  frame.step = static_cast<std::uint32_t>(step);
  frame.place = place;
  if (frame.is_frame) {
    frame.node = nodes_.add(node, &event);
  } else {
    frame.node = node.shown_under;
    frame.builtin = {node.builtin, node.line};
  }
  state_.python.push_back(frame);
  return frame.is_frame ? frame.node : kNone;
}

std::optional<std::size_t> CallTreeRules::op_that_ends(const State& state, const Event& event) {
  for (std::size_t i = state.python.size(); i-- > 0;) {
    const LivePython& live = state.python[i];
    if (live.kind == PathKind::op &&
        (live.place == event.stack_pointer || live.place == 0 || event.stack_pointer == 0))
      return i;
  }
  return std::nullopt;
}

void CallTreeRules::end_op(const Event& event) {
  const std::optional<std::size_t> ending = op_that_ends(state_, event);
  if (!ending) return;
  pop_to(state_.python[*ending].height);
  while (state_.python.size() > *ending) pop_python();
}

std::uint32_t CallTreeRules::add_entry(const Event& event) {
  ++statistics_.entries;
  return enter(event);
}

// Returns the size of `native` up to and including the call that a caller event describes, if it is
// already live; else 0. If Python code has run outside of it since, it is another call.
std::size_t CallTreeRules::find_asserted(const Event& event) const {
  const std::uint32_t what = functions_.identity(event.what);
  for (std::size_t i = state_.native.size(); i > state_.asserted; --i) {
    const LiveFrame& frame = state_.native[i - 1];
    if (frame.stack_pointer > event.stack_pointer) break;
    if (frame.stack_pointer == event.stack_pointer && frame.function == what &&
        frame.return_address == event.return_address)
      return frame.doubtful || frame.python_ended ? 0 : i;
  }
  return 0;
}

std::uint32_t CallTreeRules::add_caller(const Event& event) {
  if (event.return_address == 0) state_.at_beginning = true;
  const bool outermost = state_.at_beginning || state_.native.size() == initial_height();
  if (outermost && (event.return_address == 0 || functions_.begins_threads(event.what)))
    return kNone;
  if (functions_.is_agent(event.what)) return kNone;
  // A walk may begin outside of the frame that was known last.
  if (state_.asserted != 0 &&
      (state_.asserted > state_.native.size() ||
       state_.native[state_.asserted - 1].stack_pointer <= event.stack_pointer))
    state_.asserted = 0;
  if (const std::size_t height = find_asserted(event); height != 0) {
    state_.at_beginning = false;
    state_.asserted = height;
    return state_.native[height - 1].node;
  }
  const std::uint32_t added = enter(event);
  state_.asserted = state_.native.size();
  return added;
}

// Ends the frames inside the caller that was asserted last. Returns false if the entry's caller is
// another function.
bool CallTreeRules::take_asserted(const Event& event) {
  const std::size_t height = std::exchange(state_.asserted, 0);
  if (height == 0 || height > state_.native.size() || event.caller == kNone ||
      state_.native[height - 1].function != functions_.identity(event.caller))
    return false;
  pop_to(height);
  return true;
}

std::uint32_t CallTreeRules::enter(const Event& event) {
  const std::uint32_t what = functions_.identity(event.what);
  const std::uint64_t slot = event.stack_pointer;
  std::vector<LiveFrame>& native = state_.native;
  while (!native.empty() && native.back().stack_pointer < slot) pop();
  end_ops_below(slot);

  bool tail_call = false;
  std::uint32_t called = what;
  if (!native.empty() && native.back().stack_pointer == slot) {
    const LiveFrame& same = native.back();
    if (same.function != kNone && !same.left && same.return_address == event.return_address) {
      if (same.function == what && event.kind == EventKind::function_entry &&
          functions_.enters_itself(what)) {
        state_.asserted = 0;
        ++statistics_.self_entries;
        return same.node;
      }
      // An indirect jump to the function itself is not plausible; a loop around the call is.
      tail_call = same.function != what && (functions_.can_jump(same.function, what) ||
                                            (same.called != what && same.called != kNone &&
                                             functions_.calls_by_name(event, same.called)));
    }
    if (tail_call) {
      called = same.called;
      ++statistics_.tail_calls;
      if (functions_.jump_is_indirect(same.function, what)) ++statistics_.indirect_tail_calls;
    } else {
      while (!native.empty() && native.back().stack_pointer == slot) pop();
    }
  }
  // A call from where the thread begins, which only initial frames precede.
  if (std::exchange(state_.at_beginning, false) && !tail_call) pop_to(initial_height());
  if (tail_call) state_.asserted = 0;
  const bool has_parent = tail_call || take_asserted(event) || find_caller(event);

  Node node{.what = event.what};
  node.tail_call = tail_call;
  if (has_parent) {
    node.parent = native.back().node;
    node.shown_under = node.parent;
  }
  show_under_python(node, has_parent);
  const std::uint32_t added = nodes_.add(node, &event);
  push({.node = added,
        .function = what,
        .stack_pointer = slot,
        .return_address = event.return_address,
        .called = called});
  return added;
}

// Rules 3, 4 and 6: leaves the caller on top of `native`, or returns false for a root.
bool CallTreeRules::find_caller(const Event& event) {
  const std::uint32_t caller = event.caller == kNone ? kNone : functions_.identity(event.caller);
  if (caller == kNone || (!functions_.probed(caller) && live_count(caller) == 0))
    return take_innermost(caller);
  if (functions_.is_evaluation_loop(caller) && !functions_.probed(caller)) {
    // The agent records every loop that has begun since, so this is the one that was running.
    if (const std::size_t loop = running_loop(); loop != 0) {
      pop_to(loop);
      return true;
    }
  }
  std::vector<LiveFrame>& native = state_.native;
  const std::size_t live = live_count(caller);
  if (live == 0) {
    ++statistics_.roots;
    pop_to(initial_height());
    return false;
  }
  Distance* const known = distance_of(event.return_address);
  if (live == 1) {
    while (native.back().function != caller) pop();
    const std::uint64_t bytes = native.back().stack_pointer - event.stack_pointer;
    if (known == nullptr)
      distances_[event.return_address] = {.bytes = bytes};
    else
      known->varies = known->varies || known->bytes != bytes;
    return true;
  }
  std::size_t height = 0;
  if (known != nullptr && !known->varies)
    height = find_at_distance(caller, event.stack_pointer, known->bytes);
  else
    ++statistics_.recursive_callers;
  if (height != 0)
    pop_to(height);
  else
    while (native.back().function != caller) pop();
  return true;
}

CallTreeRules::Distance* CallTreeRules::distance_of(std::uint64_t return_address) {
  const auto found = distances_.find(return_address);
  return found == distances_.end() ? nullptr : &found->second;
}

// Returns the size of `native` up to and including the frame of `caller` whose slot is `bytes`
// above `slot`; 0 if there is none. Slots are ordered, so the search ends at the first one beyond.
std::size_t CallTreeRules::find_at_distance(std::uint32_t caller, std::uint64_t slot,
                                            std::uint64_t bytes) const {
  for (std::size_t i = state_.native.size(); i > 0; --i) {
    const std::uint64_t distance = state_.native[i - 1].stack_pointer - slot;
    if (distance > bytes) return 0;
    if (distance == bytes && state_.native[i - 1].function == caller) return i;
  }
  return 0;
}

bool CallTreeRules::take_innermost(std::uint32_t caller) {
  std::vector<LiveFrame>& native = state_.native;
  // Initial frames are listed whether probed or not: if only initial frames are live inside the
  // caller's frame, that frame is the caller.
  if (caller != kNone && live_count(caller) != 0) {
    std::size_t height = native.size();
    while (height > 0 && native[height - 1].function != caller && native[height - 1].initial)
      --height;
    if (height > 0 && native[height - 1].function == caller) {
      pop_to(height);
      return true;
    }
  }
  while (!native.empty() && native.back().doubtful) pop();
  if (native.empty()) {
    ++statistics_.roots;
    return false;
  }
  // The libraries of optrace are not counted: their functions have no probes by design.
  if (caller == kNone || !functions_.is_agent(caller)) ++statistics_.unprobed_callers;
  return true;
}

// Shows the node under the innermost Python frame instead of the loop that runs it (or, if no loop
// is probed, instead of the frame that was innermost when it started).
void CallTreeRules::show_under_python(Node& node, bool has_parent) {
  const std::size_t height = has_parent ? state_.native.size() : 0;
  if (!state_.python.empty()) {
    if (state_.python.back().height != height) return;
    node.shown_under = state_.python.back().node;
  } else if (has_parent && !runs_unseen_python(state_.native.back())) {
    return;
  }
  node.line = current_line();
  node.builtin = current_builtin().what;
}

bool CallTreeRules::runs_unseen_python(const LiveFrame& frame) const {
  return frame.initial && frame.function != kNone && functions_.is_evaluation_loop(frame.function);
}

namespace {

// Creates one node per call.
class EveryCall : public CallTreeRules::Nodes {
 public:
  explicit EveryCall(std::vector<CallTree::Node>& nodes) : nodes_(nodes) {}

  void set_index(std::uint32_t index) { index_ = index; }
  std::uint32_t add(const CallTreeRules::Node& node, const Event*) override {
    nodes_.push_back({node, index_});
    return static_cast<std::uint32_t>(nodes_.size() - 1);
  }

 private:
  std::vector<CallTree::Node>& nodes_;
  std::uint32_t index_ = 0;
};

[[noreturn]] void refuse(std::size_t index, std::uint64_t thread, const char* kind,
                         std::uint32_t what, std::size_t count) {
  throw Error(ExitStatus::usage,
              fmt::format("event {} of thread {} refers to {} {}, but the trace has {}", index,
                          thread, kind, what, count),
              "The trace is corrupt; record it again.");
}

}  // namespace

void check_event(const Trace& trace, const Event& event, std::size_t index, std::uint64_t thread) {
  switch (event.kind) {
    case EventKind::function_entry:
    case EventKind::caller:
      for (const std::uint32_t function : {event.what, event.caller}) {
        if (function >= trace.functions.size() && (function != kNone || event.what == kNone))
          refuse(index, thread, "function", function, trace.functions.size());
      }
      return;
    case EventKind::python_call:
    case EventKind::python_return:
    case EventKind::builtin_call:
    case EventKind::builtin_return:
    case EventKind::python_position:
      if (event.kind == EventKind::python_position && event.line == 0) return;
      if (event.what >= trace.python_functions.size())
        refuse(index, thread, "Python function", event.what, trace.python_functions.size());
      return;
    case EventKind::arguments:
    case EventKind::python_ran:
    case EventKind::returned:
      return;
    default:
      if (event.what != 0 && event.what >= trace.op_records.size())
        refuse(index, thread, "op record", event.what, trace.op_records.size());
  }
}

bool is_on_stack(const Event& event) {
  return event.kind <= EventKind::builtin_return && event.stack_pointer != 0;
}

namespace {

// The rules identify a position in Python code by one number: its line, with a hash of its columns
// above. A line that does not fit into kLineBits has no hash.
constexpr std::uint32_t kLineBits = 20;
constexpr std::uint32_t kLineMask = (1U << kLineBits) - 1;

Event with_place(const Event& event) {
  if (!has_position(event.kind) || event.line > kLineMask) return event;
  Event placed_event = event;
  const std::uint64_t mark = event.return_address * 31 + (event.return_address >> 32) * 7;
  placed_event.line |= static_cast<std::uint32_t>(mark << kLineBits);
  return placed_event;
}

}  // namespace

CallTree::CallTree(const Trace& trace, const CallTreeFunctions& functions,
                   const ThreadRecord& thread) {
  node_of_event_.reserve(thread.events.size());
  nodes_.reserve(thread.initial_stack.size() + thread.events.size());
  EveryCall every(nodes_);
  CallTreeRules rules(functions, every);
  std::uint64_t near = 0;
  for (std::uint32_t i = 0; i < thread.initial_stack.size(); ++i) {
    const std::uint32_t function = thread.initial_stack[i].function;
    if (function != kNone && function >= trace.functions.size())
      refuse(i, thread.id, "function", function, trace.functions.size());
    every.set_index(i);
    rules.add_initial(thread.initial_stack[i]);
    near = thread.initial_stack[i].stack_pointer;
  }
  for (std::uint32_t i = 0; i < thread.events.size(); ++i) {
    const Event& event = thread.events[i];
    check_event(trace, event, i, thread.id);
    every.set_index(i);
    const bool of_op = event.kind == EventKind::op_begin || event.kind == EventKind::op_end;
    node_of_event_.push_back(rules.add(of_op ? placed(event, near) : with_place(event)));
    if (is_on_stack(event)) near = event.stack_pointer;
  }
  // Also truncates lines above kLineMask, which are rare.
  for (Node& node : nodes_) node.line &= kLineMask;
  statistics_ = rules.statistics();
}

std::uint32_t CallTree::parent_event(std::size_t event) const {
  const std::uint32_t node = node_of_event_[event];
  if (node == kNone) return kNone;
  const std::uint32_t parent = nodes_[node].parent;
  if (parent == kNone || nodes_[parent].kind != PathKind::function) return kNone;
  return nodes_[parent].index;
}

}  // namespace optrace
