#include "tracer/calltree/call_tree.h"

#include <fmt/core.h>

#include "platform/error.h"

namespace optrace {
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
      for (const std::uint32_t function : {event.what, event.caller})
        if (function >= trace.functions.size() && (function != kNone || event.what == kNone))
          refuse(index, thread, "function", function, trace.functions.size());
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
