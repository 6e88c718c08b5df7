#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "tracer/calltree/call_tree_functions.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// Returns an op's event with the stack address of its RecordFunction as `stack_pointer` (0 if
/// unknown), and without the values that differ from call to call. The event contains 35 bits of
/// the address; `near`, any stack address of the thread, supplies the others.
Event placed(const Event& op_event, std::uint64_t near);

/// Returns that address alone. `recorded` is the return address of the op's event.
std::uint64_t place_of_op(std::uint64_t recorded, std::uint64_t near);

/// Returns true if the event's stack pointer is an address on the stack.
bool is_on_stack(const Event& event);

/// Rebuilds the calls of one thread from entries alone; the end of a function is not recorded.
///
/// Keeps a list of live frames, ordered by stack pointer (the address of the return slot, so that a
/// callee's is below its caller's). For each entry with slot S and return address R, where C is the
/// function that contains R, these rules apply in this order:
///
///  1. Frames with a slot below S have ended.
///  2. A live frame F with the same slot S was either left by a jump, or it has ended. It was left
///     by a jump if R is also F's return address and F's code has a jump to the entered function
///     (a direct one, or any indirect one): a *tail call* with F as the parent. If F is the entered
///     function and its body branches to its own entry, this is a *self entry*: an iteration of a
///     loop, not a call. Otherwise F, and the functions that it jumped to, have ended.
///  3. C must be the parent. Live frames inside the innermost live frame of C have ended (they
///     returned, or a C++ exception unwound them). If C is live more than once, and an unambiguous
///     entry has shown how far below C's slot R is pushed (this does not change), the frame at that
///     distance is the parent.
///  4. If C is probed but not live, it was entered before recording began: the entry is a *root*.
///     All frames entered since have ended, because C is outside of them and running.
///  5. If C is not probed, the agent has walked the stack from the entry up to the next probed
///     function, and has recorded the functions in between before the entry, outermost first
///     (`caller` events). Such a frame is live: if it is in the list with the same slot and return
///     address, it is the same call, and the frames inside it have ended; otherwise it is entered
///     now by the rules above. Rule 3 then finds C.
///  6. If C is not live because there was no such event, or C is unknown, the innermost remaining
///     frame is taken as the parent, and the entry is counted in `unprobed_callers`.
///
/// Python frames nest by their calls and returns. They belong to the frame of the evaluation loop
/// that runs them: the innermost live one that has not lost all its Python frames (up to Python
/// 3.10, each call has its own loop; from 3.11 on, one loop runs many calls). A native frame whose
/// parent is such a loop is shown under the loop's innermost Python frame. If no evaluation loop is
/// probed, only the order of events decides, and an event in a Python frame ends the native frames
/// inside it.
///
/// A running autograd node is treated like a Python frame, in the innermost live frame that runs
/// nodes. What that frame calls after the node belongs to the node, too: the engine reduces
/// gradients that were expanded, and adds those of several uses.
///
/// A running op is treated likewise, from its record's begin to its end. The record is made in the
/// stack frame that dispatches; at both events, frames below it have ended. The op has no frame of
/// its own if that stack frame is the op's own step of at::_ops, or if it is not a dispatcher op (a
/// custom autograd function). Ops of other namespaces, and all ops that are called boxed, have no
/// such step.
class CallTreeRules {
 public:
  struct Node {
    PathKind kind = PathKind::function;
    bool tail_call = false;      ///< Entered by a tail call from `parent`.
    std::uint32_t what = kNone;  ///< Meaning depends on `kind`.
    /// The caller; for python and node, the node that runs them.
    std::uint32_t parent = kNone;
    /// Like `parent`, but the Python frame where `parent` runs one.
    std::uint32_t shown_under = kNone;
    /// The line at which `shown_under`, if it is Python, calls this. It is the event's `line`,
    /// which may be any number that identifies a position.
    std::uint32_t line = 0;
    std::uint32_t builtin = kNone;  ///< The Python function by which Python called this.
  };

  /// Stores the nodes.
  class Nodes {
   public:
    Nodes() = default;
    virtual ~Nodes() = default;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;
    /// Returns the node's number, which Node::parent and the state use.
    virtual std::uint32_t add(const Node& node, const Event* event) = 0;
  };

  /// A native frame that has not ended as far as is known.
  struct LiveFrame {
    std::uint32_t node = kNone;
    std::uint32_t function = kNone;  ///< Its identity.
    std::uint64_t stack_pointer = 0;
    std::uint64_t return_address = 0;
    std::uint32_t called = kNone;            ///< The first function entered in this slot (rule 2).
    std::uint32_t innermost_python = kNone;  ///< Evaluation loops only: a node.
    bool initial = false;
    bool python_ended = false;  ///< Evaluation loops only: the last Python frame returned.
    bool doubtful = false;      ///< The evaluation loop around it has run Python code since.
    bool left = false;          ///< The loop has since reached another instruction: no jumps.
    bool op_begun = false;      ///< Steps of at::_ops only: their op has begun.
    bool operator==(const LiveFrame&) const = default;
  };

  /// A builtin that a Python frame is calling.
  struct BuiltinCall {
    std::uint32_t what = kNone;
    std::uint32_t line = 0;
    bool operator==(const BuiltinCall&) const = default;
  };

  /// A Python frame that has not returned, or a running autograd node or op.
  struct LivePython {
    PathKind kind = PathKind::python;
    bool is_frame = true;  ///< False for an op without a frame; `node` is then its parent.
    std::uint32_t node = kNone;
    std::uint32_t what = kNone;
    std::uint32_t step = 0;    ///< Ops without a frame: native[step - 1] is the op's step; 0: none.
    std::uint64_t place = 0;   ///< Ops only: see placed().
    std::uint64_t height = 0;  ///< Size of `native` without the native frames inside it.
    bool in_loop = false;      ///< True if native[height - 1] is its evaluation loop.
    std::uint32_t outside = kNone;  ///< The innermost Python node of that loop before it.
    BuiltinCall builtin{};
    std::uint32_t line = 0;  ///< Current line, from python_position.
    bool operator==(const LivePython&) const = default;
  };

  /// The complete state of the rules.
  struct State {
    std::vector<LiveFrame> native;   ///< Outermost first.
    std::vector<LivePython> python;  ///< Outermost first.
    /// Builtin called by the Python frame that was running when recording started.
    BuiltinCall outer_builtin{};
    std::uint32_t outer_line = 0;  ///< Line of that Python frame.
    /// native[asserted - 1] is the frame of the last caller event; 0 if there was none.
    std::uint64_t asserted = 0;
    /// The last event was a caller in which the thread begins: the next one is called from there.
    bool at_beginning = false;
    /// The node that ended last; kNone if another one began, or the engine's function ended.
    std::uint32_t ended_node = kNone;
    std::uint64_t ended_height = 0;  ///< Size of `native` with that function.
    bool operator==(const State&) const = default;
  };

  /// Both must outlive the rules.
  CallTreeRules(const CallTreeFunctions& functions, Nodes& nodes)
      : functions_(functions), nodes_(nodes) {}

  void add_initial(const InitialFrame& frame);

  /// Returns the node that the event entered; for a self entry, the node of the entry that it
  /// repeats; kNone for other kinds of events. Op events must be `placed`.
  std::uint32_t add(const Event& event);

  /// Returns the position in the state's `python` of the op that ends with this event; nullopt if
  /// it never began.
  static std::optional<std::size_t> op_that_ends(const State& state, const Event& event);

  const State& state() const { return state_; }
  void set_state(const State& state);

  /// The numbers of native and Python frames that have stayed live since the last take_kept().
  struct Kept {
    std::size_t native = 0;
    std::size_t python = 0;
  };
  Kept take_kept();

  const CallTreeStatistics& statistics() const { return statistics_; }
  CallTreeStatistics& statistics() { return statistics_; }

 private:
  // The distance between the return slots of a caller and its callee, for one return address.
  struct Distance {
    std::uint64_t bytes = 0;
    bool varies = false;
  };

  void push(const LiveFrame& frame);
  void count_live(std::uint32_t function, int change);
  void pop();
  void pop_to(std::size_t height);
  void pop_python();
  void doubt_above(std::size_t height);
  std::size_t live_count(std::uint32_t function) const {
    return function < live_counts_.size() ? live_counts_[function] : 0;
  }
  std::size_t initial_height() const;
  BuiltinCall& current_builtin();
  std::uint32_t current_line();
  void record_position(const Event& event);
  std::size_t running_loop() const;
  std::size_t outermost_loop() const;
  void leave_native_frames();
  std::uint32_t add_live_python(const Event& event);
  std::uint32_t add_python_call(const Event& event);
  void end_python_call(const Event& event);
  std::uint32_t begin_node(const Event& event);
  void end_node();
  void forget_ended_node();
  bool runs_nodes(const LiveFrame& frame) const {
    return frame.function != kNone && functions_.runs_nodes(frame.function);
  }
  std::uint32_t begin_op(const Event& event);
  void end_op(const Event& event);
  void end_ops_below(std::uint64_t stack_pointer);
  std::size_t find_step(const Event& op) const;
  std::uint32_t add_entry(const Event& event);
  std::size_t find_asserted(const Event& event) const;
  std::uint32_t add_caller(const Event& event);
  bool take_asserted(const Event& event);
  std::uint32_t enter(const Event& event);
  bool find_caller(const Event& event);
  Distance* distance_of(std::uint64_t return_address);
  std::size_t find_at_distance(std::uint32_t caller, std::uint64_t slot, std::uint64_t bytes) const;
  bool take_innermost(std::uint32_t caller);
  void show_under_python(Node& node, bool has_parent);
  bool runs_unseen_python(const LiveFrame& frame) const;

  const CallTreeFunctions& functions_;
  Nodes& nodes_;
  State state_;
  std::vector<std::uint32_t> live_counts_;  // By function: number of its frames in state_.native.
  Kept kept_;
  CallTreeStatistics statistics_;
  std::unordered_map<std::uint64_t, Distance> distances_;
};

}  // namespace optrace
