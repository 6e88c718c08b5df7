// The part of CallTreeRules about entries of functions, and their callers: rules 1 to 6.

#include <utility>

#include "tracer/calltree/call_tree_rules.h"

namespace optrace {

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
  if (has_parent && state_.ended_node != kNone && runs_nodes(native.back()) &&
      native.size() >= state_.ended_height && !functions_.runs_nodes(what))
    node.shown_under = state_.ended_node;
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

}  // namespace optrace
