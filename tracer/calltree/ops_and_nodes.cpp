// The part of CallTreeRules about running ops and autograd nodes.

#include <algorithm>

#include "tracer/calltree/call_tree_rules.h"

namespace optrace {

std::uint32_t CallTreeRules::begin_node(const Event& event) {
  // Frames above have ended: the engine's function reports the node before it calls anything else.
  std::size_t height = state_.native.size();
  while (height > 0 && !runs_nodes(state_.native[height - 1])) --height;
  if (height != 0) pop_to(height);
  forget_ended_node();
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
  state_.ended_node = found->node;
  state_.ended_height = found->height;
  while (state_.ended_height > 1 && runs_nodes(state_.native[state_.ended_height - 2]))
    --state_.ended_height;
  const std::size_t at = static_cast<std::size_t>(state_.python.rend() - found) - 1;
  while (state_.python.size() > at) pop_python();
}

void CallTreeRules::forget_ended_node() {
  state_.ended_node = kNone;
  state_.ended_height = 0;
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

}  // namespace optrace
