#include "report/call_tree.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"

namespace optrace {
namespace {

using Node = CallTree::Node;

// Where CPython runs Python code, by version: Python/ceval.c. The same name from 3.6 on.
constexpr std::string_view kEvaluationLoop = "_PyEval_EvalFrameDefault";

// Our own library in the traced process.
constexpr std::string_view kAgentLibrary = "liboptrace_agent.so";

// `f.cold` and `f.cold.7` are where GCC puts the unlikely paths of f: code of f, without an entry.
std::string_view without_cold_suffix(std::string_view symbol) {
  const std::size_t at = symbol.rfind(".cold");
  if (at == std::string_view::npos || at == 0) return symbol;
  const std::string_view tail = symbol.substr(at + 5);
  const bool numbered = !tail.empty() && tail.front() == '.' &&
                        tail.find_first_not_of("0123456789", 1) == std::string_view::npos &&
                        tail.size() > 1;
  return tail.empty() || numbered ? symbol.substr(0, at) : symbol;
}

bool names_evaluation_loop(std::string_view symbol) {
  // Profile-guided builds have clones: `_PyEval_EvalFrameDefault.localalias`, `.constprop.0`.
  return symbol.substr(0, symbol.find('.')) == kEvaluationLoop;
}

}  // namespace

CallTreeFunctions::CallTreeFunctions(const Trace& trace)
    : identities_(trace.functions.size()),
      probed_(trace.functions.size()),
      enters_itself_(trace.functions.size()),
      evaluation_loop_(trace.functions.size()),
      agent_(trace.functions.size()),
      jumps_indirectly_(trace.functions.size()),
      tail_calls_(trace.functions.size()),
      python_count_(trace.python_functions.size()) {
  // Owners of moved-away parts are looked up by name, and local functions may share one: then the
  // source file decides.
  std::unordered_map<std::string_view, std::vector<std::uint32_t>> by_symbol;
  bool has_parts = false;
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
    set(evaluation_loop_, names_evaluation_loop(function.symbol));
    set(agent_,
        function.module < trace.modules.size() &&
            std::filesystem::path(trace.modules[function.module].path).filename() == kAgentLibrary);
    for (const std::uint32_t target : function.tail_calls) {
      if (target >= identities_.size()) continue;
      tail_calls_[owner].push_back(identities_[target]);
    }
  }
  for (std::vector<std::uint32_t>& targets : tail_calls_) std::sort(targets.begin(), targets.end());
}

bool CallTreeFunctions::jumps_directly(std::uint32_t from, std::uint32_t to) const {
  return std::binary_search(tail_calls_[from].begin(), tail_calls_[from].end(), to);
}

bool CallTreeFunctions::can_jump(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 || jumps_directly(from, to);
}

bool CallTreeFunctions::jump_is_indirect(std::uint32_t from, std::uint32_t to) const {
  return jumps_indirectly_[from] != 0 && !jumps_directly(from, to);
}

namespace {

// The state while one thread's events are read in order.
class Reconstruction {
 public:
  Reconstruction(const CallTreeFunctions& functions, const ThreadRecord& thread,
                 std::vector<Node>& nodes, std::vector<std::uint32_t>& node_of_event,
                 CallTree::Statistics& statistics)
      : functions_(functions),
        thread_(thread),
        nodes_(nodes),
        node_of_event_(node_of_event),
        statistics_(statistics),
        live_count_(functions.count()) {}

  void run() {
    node_of_event_.assign(thread_.events.size(), kNone);
    nodes_.reserve(thread_.initial_stack.size() + thread_.events.size());
    for (std::uint32_t i = 0; i < thread_.initial_stack.size(); ++i) add_initial(i);
    for (std::uint32_t i = 0; i < thread_.events.size(); ++i) add_event(i);
  }

 private:
  // A native frame that has not ended as far as is known.
  struct LiveFrame {
    std::uint32_t node = kNone;
    std::uint32_t function = kNone;  // Its identity.
    std::uint64_t stack_pointer = 0;
    std::uint64_t return_address = 0;
    std::uint32_t innermost_python = kNone;  // Evaluation loops: a node.
    bool initial = false;
    bool python_ended = false;  // Evaluation loops: its last Python frame returned.
    bool doubtful = false;      // See doubt_above().
  };

  // A builtin that a Python frame is inside of.
  struct BuiltinCall {
    std::uint32_t what = kNone;
    std::uint32_t line = 0;
  };

  // A Python frame that has not returned.
  struct LivePython {
    std::uint32_t node = kNone;
    std::uint32_t what = kNone;
    std::size_t height = 0;         // Of live_ without what is native and inside it.
    bool in_loop = false;           // live_[height - 1] is its evaluation loop.
    std::uint32_t outside = kNone;  // The innermost Python node of that loop before it.
    BuiltinCall builtin{};
  };

  // How far below a caller's return slot the one of its callee lies, for one return address.
  struct Distance {
    std::uint64_t bytes = 0;
    bool varies = false;
  };

  [[noreturn]] void refuse(std::uint32_t event, const char* kind, std::uint32_t what,
                           std::size_t count) const {
    throw Error(ExitStatus::usage,
                fmt::format("event {} of thread {} names {} {}, but the trace has {}", event,
                            thread_.id, kind, what, count),
                "The trace is corrupt; record it again.");
  }

  void push(const LiveFrame& frame) {
    live_.push_back(frame);
    if (frame.function != kNone) ++live_count_[frame.function];
  }

  void pop() {
    if (live_.back().function != kNone) --live_count_[live_.back().function];
    live_.pop_back();
    while (!python_.empty() && python_.back().height > live_.size()) pop_python();
  }

  void pop_to(std::size_t height) {
    while (live_.size() > height) pop();
  }

  // Something happened in Python code, whose evaluation loop is live_[height - 1]: what is inside
  // of that loop has ended, but for CPython's functions that told so (call_trace and the like),
  // which go on and may be callers yet.
  void doubt_above(std::size_t height) {
    for (std::size_t i = height; i < live_.size(); ++i) live_[i].doubtful = true;
  }

  void pop_python() {
    const LivePython& frame = python_.back();
    // Its loop may be gone already: then it took its list along.
    if (frame.in_loop && frame.height <= live_.size()) {
      LiveFrame& loop = live_[frame.height - 1];
      loop.innermost_python = frame.outside;
      loop.python_ended = !loop.initial && frame.outside == kNone;
    }
    python_.pop_back();
  }

  void add_initial(std::uint32_t index) {
    const InitialFrame& frame = thread_.initial_stack[index];
    if (frame.function != kNone && frame.function >= functions_.count())
      refuse(index, "function", frame.function, functions_.count());
    const std::uint32_t parent = live_.empty() ? kNone : live_.back().node;
    nodes_.push_back({.kind = Node::Kind::initial,
                      .what = frame.function,
                      .index = index,
                      .parent = parent,
                      .shown_under = parent});
    push({.node = static_cast<std::uint32_t>(nodes_.size() - 1),
          .function = frame.function == kNone ? kNone : functions_.identity(frame.function),
          .stack_pointer = frame.stack_pointer,
          .return_address = frame.return_address,
          .initial = true});
  }

  void add_event(std::uint32_t index) {
    const Event& event = thread_.events[index];
    if (event.kind == EventKind::function_entry) {
      if (event.what >= functions_.count())
        refuse(index, "function", event.what, functions_.count());
      if (event.caller != kNone && event.caller >= functions_.count())
        refuse(index, "function", event.caller, functions_.count());
      add_entry(index, event);
      return;
    }
    if (event.what >= functions_.python_count())
      refuse(index, "Python function", event.what, functions_.python_count());
    while (!live_.empty() && live_.back().stack_pointer < event.stack_pointer) pop();
    switch (event.kind) {
      case EventKind::python_call:
        add_python_call(index, event);
        break;
      case EventKind::python_return:
        end_python_call(event);
        break;
      case EventKind::builtin_call:
        leave_native_frames();
        current_builtin() = {event.what, event.line};
        break;
      default:
        leave_native_frames();
        current_builtin() = {};
        break;
    }
  }

  BuiltinCall& current_builtin() {
    return python_.empty() ? outer_builtin_ : python_.back().builtin;
  }

  // The height of live_ at which the innermost evaluation loop that still runs Python is on top, or
  // nothing.
  std::size_t running_loop() const {
    for (std::size_t i = live_.size(); i > 0; --i) {
      const LiveFrame& frame = live_[i - 1];
      if (frame.function != kNone && functions_.is_evaluation_loop(frame.function) &&
          !frame.python_ended)
        return i;
    }
    return 0;
  }

  // Without a probed loop nothing tells that native frames inside a Python frame have ended, other
  // than that the frame runs. (With one, its next callee's slot and caller do, and what calls the
  // hook from the loop stays live.)
  void leave_native_frames() {
    if (!python_.empty() && !python_.back().in_loop) pop_to(python_.back().height);
  }

  void add_python_call(std::uint32_t index, const Event& event) {
    const std::size_t loop = running_loop();
    const std::size_t outer = python_.empty() ? 0 : python_.back().height;
    LivePython frame{.what = event.what};
    Node node{.kind = Node::Kind::python, .what = event.what, .index = index, .line = event.line};
    if (loop != 0 && loop >= outer) {
      doubt_above(loop);
      const LiveFrame& host = live_[loop - 1];
      frame.in_loop = true;
      frame.outside = host.innermost_python;
      node.parent = host.node;
      node.shown_under = host.innermost_python == kNone ? host.node : host.innermost_python;
    } else {
      // No loop is probed. A builtin may have called back; anything else native has ended.
      const bool called_back = !python_.empty() && python_.back().builtin.what != kNone;
      if (!called_back) pop_to(std::max(outer, initial_height()));
      node.parent = live_.empty() ? kNone : live_.back().node;
      node.shown_under = !python_.empty() && python_.back().height == live_.size()
                             ? python_.back().node
                             : node.parent;
    }
    frame.height = frame.in_loop ? loop : live_.size();
    nodes_.push_back(node);
    frame.node = static_cast<std::uint32_t>(nodes_.size() - 1);
    node_of_event_[index] = frame.node;
    if (frame.in_loop) live_[loop - 1].innermost_python = frame.node;
    python_.push_back(frame);
  }

  void end_python_call(const Event& event) {
    const auto found = std::find_if(python_.rbegin(), python_.rend(), [&](const LivePython& frame) {
      return frame.what == event.what;
    });
    if (found == python_.rend()) {
      ++statistics_.unmatched_python_events;
      return;
    }
    if (found->in_loop)
      doubt_above(found->height);
    else if (!found->in_loop)
      pop_to(found->height);
    while (python_.back().what != event.what) pop_python();
    pop_python();
  }

  std::size_t initial_height() const {
    std::size_t height = 0;
    while (height < live_.size() && live_[height].initial) ++height;
    return height;
  }

  void add_entry(std::uint32_t index, const Event& event) {
    ++statistics_.entries;
    const std::uint32_t what = functions_.identity(event.what);
    const std::uint64_t slot = event.stack_pointer;
    while (!live_.empty() && live_.back().stack_pointer < slot) pop();

    bool tail_call = false;
    if (!live_.empty() && live_.back().stack_pointer == slot) {
      const LiveFrame& same = live_.back();
      if (same.function != kNone && same.return_address == event.return_address) {
        if (same.function == what && functions_.enters_itself(what)) {
          ++statistics_.self_entries;
          node_of_event_[index] = same.node;
          return;
        }
        // A jump through a register to where one is already: not credible, a loop outside is.
        tail_call = same.function != what && functions_.can_jump(same.function, what);
      }
      if (tail_call) {
        ++statistics_.tail_calls;
        if (functions_.jump_is_indirect(same.function, what)) ++statistics_.indirect_tail_calls;
      } else {
        while (!live_.empty() && live_.back().stack_pointer == slot) pop();
      }
    }
    const bool has_parent = tail_call || find_caller(event);

    Node node{.what = event.what, .index = index};
    node.tail_call = tail_call;
    if (has_parent) {
      node.parent = live_.back().node;
      node.shown_under = node.parent;
    }
    show_under_python(node, has_parent);
    nodes_.push_back(node);
    node_of_event_[index] = static_cast<std::uint32_t>(nodes_.size() - 1);
    push({.node = node_of_event_[index],
          .function = what,
          .stack_pointer = slot,
          .return_address = event.return_address});
  }

  // Rules 3 to 5: leaves the caller on top of live_, or returns false for a root.
  bool find_caller(const Event& event) {
    const std::uint32_t caller = event.caller == kNone ? kNone : functions_.identity(event.caller);
    if (caller == kNone || !functions_.probed(caller)) return take_innermost(caller);
    if (live_count_[caller] == 0) {
      ++statistics_.roots;
      pop_to(initial_height());
      return false;
    }
    Distance* const known = distance_of(event.return_address);
    if (live_count_[caller] == 1) {
      while (live_.back().function != caller) pop();
      const std::uint64_t bytes = live_.back().stack_pointer - event.stack_pointer;
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
      while (live_.back().function != caller) pop();
    return true;
  }

  Distance* distance_of(std::uint64_t return_address) {
    const auto found = distances_.find(return_address);
    return found == distances_.end() ? nullptr : &found->second;
  }

  // The height of live_ with the frame of `caller` on top whose slot is `bytes` above `slot`; 0 if
  // there is none. Slots are ordered, so the search ends at the first one beyond.
  std::size_t find_at_distance(std::uint32_t caller, std::uint64_t slot,
                               std::uint64_t bytes) const {
    for (std::size_t i = live_.size(); i > 0; --i) {
      const std::uint64_t distance = live_[i - 1].stack_pointer - slot;
      if (distance > bytes) return 0;
      if (distance == bytes && live_[i - 1].function == caller) return i;
    }
    return 0;
  }

  bool take_innermost(std::uint32_t caller) {
    // Initial frames are there whether probed or not: if only such are live inside the caller's,
    // it is that one.
    if (caller != kNone && live_count_[caller] != 0) {
      std::size_t height = live_.size();
      while (height > 0 && live_[height - 1].function != caller && live_[height - 1].initial)
        --height;
      if (height > 0 && live_[height - 1].function == caller) {
        pop_to(height);
        return true;
      }
    }
    while (!live_.empty() && live_.back().doubtful) pop();
    if (live_.empty()) {
      ++statistics_.roots;
      return false;
    }
    // What the agent calls is not the program's; it is known to have no probes.
    if (caller == kNone || !functions_.is_agent(caller)) ++statistics_.unprobed_callers;
    return true;
  }

  // Puts the innermost Python frame in the place of the loop that runs it (or, where no loop is
  // probed, of whatever was innermost when it started).
  void show_under_python(Node& node, bool has_parent) {
    const std::size_t height = has_parent ? live_.size() : 0;
    if (!python_.empty()) {
      if (python_.back().height != height) return;
      node.shown_under = python_.back().node;
    } else if (has_parent && !runs_unseen_python(live_.back())) {
      return;
    }
    node.line = current_builtin().line;
    node.builtin = current_builtin().what;
  }

  bool runs_unseen_python(const LiveFrame& frame) const {
    return frame.initial && frame.function != kNone &&
           functions_.is_evaluation_loop(frame.function);
  }

  const CallTreeFunctions& functions_;
  const ThreadRecord& thread_;
  std::vector<Node>& nodes_;
  std::vector<std::uint32_t>& node_of_event_;
  CallTree::Statistics& statistics_;

  std::vector<LiveFrame> live_;  // Outermost first.
  std::vector<std::uint32_t> live_count_;
  std::vector<LivePython> python_;
  BuiltinCall outer_builtin_;  // Of the Python frame that was running when recording started.
  std::unordered_map<std::uint64_t, Distance> distances_;
};

}  // namespace

CallTree::CallTree(const CallTreeFunctions& functions, const ThreadRecord& thread) {
  Reconstruction(functions, thread, nodes_, node_of_event_, statistics_).run();
}

std::uint32_t CallTree::parent_event(std::size_t event) const {
  const std::uint32_t node = node_of_event_[event];
  if (node == kNone) return kNone;
  const std::uint32_t parent = nodes_[node].parent;
  if (parent == kNone || nodes_[parent].kind != Node::Kind::function) return kNone;
  return nodes_[parent].index;
}

}  // namespace optrace
