#include "tracer/calltree/call_tree_rules.h"

#include <algorithm>
#include <utility>

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

bool is_on_stack(const Event& event) {
  return event.kind <= EventKind::builtin_return && event.stack_pointer != 0;
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
  if (state_.native.size() < state_.ended_height) forget_ended_node();
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
      record_position(event);
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

}  // namespace optrace
