// The part of CallTreeRules about Python frames and the evaluation loops that run them.

#include <algorithm>

#include "tracer/calltree/call_tree_rules.h"

namespace optrace {

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
void CallTreeRules::record_position(const Event& event) {
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

}  // namespace optrace
