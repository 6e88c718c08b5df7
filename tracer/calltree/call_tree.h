#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tracer/probes/function_roles.h"
#include "tracer/trace/op_names.h"
#include "tracer/trace/trace.h"

namespace optrace {

/// An op's event with its place, the stack address of its RecordFunction, as `stack_pointer` (0 if
/// unknown), and without what else has other values in each call. `near` is any stack address of
/// the thread: a place is told in 35 bits.
Event placed(const Event& op_event, std::uint64_t near);

/// Whether the event's stack pointer is one.
bool is_on_stack(const Event& event);

/// What the rules of the call tree need to know about functions, and the ops' records. Functions go
/// by their index.
class CallTreeFunctions {
 public:
  CallTreeFunctions() = default;
  virtual ~CallTreeFunctions() = default;
  CallTreeFunctions(const CallTreeFunctions&) = delete;
  CallTreeFunctions& operator=(const CallTreeFunctions&) = delete;

  /// The function itself; for a part that GCC moved away (`f.cold`), the function that it is of,
  /// because that is the one that has an entry.
  virtual std::uint32_t identity(std::uint32_t function) const = 0;

  // The rest is asked of identities.
  virtual bool probed(std::uint32_t function) const = 0;
  virtual bool enters_itself(std::uint32_t function) const = 0;
  /// CPython's evaluation loop, whose frame stands for Python frames.
  virtual bool is_evaluation_loop(std::uint32_t function) const = 0;
  /// A function of optrace's own, which runs in the traced process without being probed.
  virtual bool is_agent(std::uint32_t function) const = 0;
  /// Where threads begin: nothing is told by such a frame but that it is the outermost.
  virtual bool begins_threads(std::uint32_t function) const = 0;
  /// Where autograd's engine runs a node: what a node's ops and kernels belong under.
  virtual bool runs_nodes(std::uint32_t function) const = 0;
  /// What the function is to the call of an op that has this record.
  virtual OpStep op_step(std::uint32_t function, std::uint32_t record) const = 0;
  /// The first record of the op that this one is of; kNone for what has a name and no schema.
  virtual std::uint32_t op_of(std::uint32_t record) const = 0;
  /// True if the code of `from` (its moved-away parts included) can jump to the entry of `to`.
  virtual bool can_jump(std::uint32_t from, std::uint32_t to) const = 0;
  /// True if only an indirect jump, whose target the code does not show, explains `from` to `to`.
  virtual bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const = 0;
  /// True if the call that `entry`'s return address lies behind names `called`: whatever else is
  /// entered with that return address was then jumped to.
  virtual bool calls_by_name(const Event& entry, std::uint32_t called) const = 0;
};

/// The functions of a trace, which must outlive it.
class TraceCallTreeFunctions : public CallTreeFunctions {
 public:
  explicit TraceCallTreeFunctions(const Trace& trace);

  std::uint32_t identity(std::uint32_t function) const override { return identities_[function]; }
  bool probed(std::uint32_t function) const override { return probed_[function] != 0; }
  bool enters_itself(std::uint32_t function) const override {
    return enters_itself_[function] != 0;
  }
  bool is_evaluation_loop(std::uint32_t function) const override {
    return evaluation_loop_[function] != 0;
  }
  bool is_agent(std::uint32_t function) const override { return agent_[function] != 0; }
  bool begins_threads(std::uint32_t function) const override {
    return begins_threads_[function] != 0;
  }
  bool runs_nodes(std::uint32_t function) const override { return runs_nodes_[function] != 0; }
  OpStep op_step(std::uint32_t function, std::uint32_t record) const override;
  std::uint32_t op_of(std::uint32_t record) const override { return ops_.at(record).first; }
  std::string_view op_name(std::uint32_t record) const { return ops_.at(record).name; }
  const FunctionRole& role(std::uint32_t function) const { return roles_[function]; }
  bool can_jump(std::uint32_t from, std::uint32_t to) const override;
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const override;
  /// A trace has such jumps among its functions' tail calls.
  bool calls_by_name(const Event&, std::uint32_t) const override { return false; }

 private:
  bool jumps_directly(std::uint32_t from, std::uint32_t to) const;

  mutable OpNames ops_;
  std::vector<FunctionRole> roles_;  // Views into the trace's symbols.
  std::vector<std::uint32_t> identities_;
  std::vector<std::uint8_t> probed_;
  std::vector<std::uint8_t> enters_itself_;
  std::vector<std::uint8_t> evaluation_loop_;
  std::vector<std::uint8_t> agent_;
  std::vector<std::uint8_t> begins_threads_;
  std::vector<std::uint8_t> runs_nodes_;
  std::vector<std::uint8_t> jumps_indirectly_;
  std::vector<std::vector<std::uint32_t>> tail_calls_;  // Sorted.
};

/// Rebuilds the calls of one thread from entries alone: nothing records a function's end.
///
/// A list of live frames is kept, ordered by stack pointer (the address of the return slot, so a
/// callee's is below its caller's). For each entry, with its slot S, return address R and the
/// function C that holds R, these rules apply in this order:
///
///  1. Frames whose slot is below S have ended.
///  2. A live frame F with the very slot S was either left by a jump, or it has ended. It was left
///     by a jump if R is F's return address too and F's code has a jump to the function entered
///     (a direct one to it, or any indirect one): a *tail call*, the parent is F. If F is the
///     function entered and its body branches to its own entry, it is a *self entry*: a turn of a
///     loop, no call. Otherwise F, and what it was left for, has ended.
///  3. C must be the parent: live frames inside the innermost live frame of C have ended (they
///     returned, or a C++ exception went through them). Where C is live more than once, and how
///     far below C's slot R is pushed is known from an unambiguous entry (it does not change), the
///     frame at that distance is it.
///  4. If C is probed but not live, it was entered before recording began: a *root*. All frames
///     entered since have ended, because C is outside of them and runs.
///  5. If C is not probed, the agent has walked the stack from the entry up to the next probed
///     function, and what lies between comes before the entry, the outermost first (a `caller`
///     event). Such a frame is live: if it is in the list already, with the same slot and return
///     address, it is that call of it, and what was inside has ended; else it is entered now, by
///     the rules above. Rule 3 then finds C.
///  6. If C is not live for want of such an event, or nobody knows what holds R, the innermost
///  frame
///     left is taken for the parent, and the entry is counted as `unprobed_callers`.
///
/// Python frames nest by their calls and returns, and belong to the frame of the evaluation loop
/// that runs them: the innermost live one that has not lost all its Python frames (Python up to
/// 3.10 has one loop a call; from 3.11 on, one for many). A native frame whose parent is such a
/// loop is shown under the innermost Python frame in it. Where no evaluation loop is probed, the
/// order of events alone decides, and what happens in a Python frame ends the native frames inside.
///
/// An autograd node that runs is a frame like Python's, in the innermost live frame that runs
/// nodes.
///
/// So is an op that runs, from its record's begin to its end. The record is made in the stack frame
/// that dispatches: frames below it have ended at both. Where that frame is the op's own step of
/// at::_ops, the op is no frame besides, and where it is no dispatcher's op (a custom autograd
/// function), neither. Ops of other namespaces, and all that are called boxed, have no such step.
class CallTreeRules {
 public:
  struct Node {
    PathKind kind = PathKind::function;
    bool tail_call = false;             ///< Entered by a jump from `parent`, which left no frame.
    std::uint32_t what = kNone;         ///< As PathKind says.
    std::uint32_t parent = kNone;       ///< A node: the caller; python and node: what they run in.
    std::uint32_t shown_under = kNone;  ///< As `parent`, with Python frames in their place.
    std::uint32_t line = 0;  ///< Of Python code: where `shown_under`, if Python, calls this. What
                             ///< events have for a line, which may be any number that tells them.
    std::uint32_t builtin = kNone;  ///< The Python function as which Python called this.
  };

  /// Who keeps the nodes.
  class Nodes {
   public:
    Nodes() = default;
    virtual ~Nodes() = default;
    Nodes(const Nodes&) = delete;
    Nodes& operator=(const Nodes&) = delete;
    /// Returns by what number the node goes: in Node::parent, and in the state.
    virtual std::uint32_t add(const Node& node, const Event* event) = 0;
  };

  /// A native frame that has not ended as far as is known.
  struct LiveFrame {
    std::uint32_t node = kNone;
    std::uint32_t function = kNone;  ///< Its identity.
    std::uint64_t stack_pointer = 0;
    std::uint64_t return_address = 0;
    std::uint32_t called = kNone;  ///< The first function entered in this slot: see rule 2.
    std::uint32_t innermost_python = kNone;  ///< Evaluation loops: a node.
    bool initial = false;
    bool python_ended = false;  ///< Evaluation loops: its last Python frame returned.
    bool doubtful = false;      ///< Inside an evaluation loop that has gone on since,
    bool left = false;          ///< to another instruction: nothing it does can be a jump.
    bool op_begun = false;      ///< Steps of at::_ops: their op has begun, if it has not ended.
    bool operator==(const LiveFrame&) const = default;
  };

  /// A builtin that a Python frame is inside of.
  struct BuiltinCall {
    std::uint32_t what = kNone;
    std::uint32_t line = 0;
    bool operator==(const BuiltinCall&) const = default;
  };

  /// A Python frame that has not returned, or an autograd node or an op that runs.
  struct LivePython {
    PathKind kind = PathKind::python;
    bool is_frame = true;  ///< False for an op that is none: `node` is what it runs in.
    std::uint32_t node = kNone;
    std::uint32_t what = kNone;
    std::uint32_t step = 0;    ///< Ops that are no frame: native[step - 1] is the op's; 0: none is.
    std::uint64_t place = 0;   ///< Ops: see `placed`.
    std::uint64_t height = 0;  ///< Of `native` without what is native and inside it.
    bool in_loop = false;      ///< native[height - 1] is its evaluation loop.
    std::uint32_t outside = kNone;  ///< The innermost Python node of that loop before it.
    BuiltinCall builtin{};
    std::uint32_t line = 0;  ///< Where it is, as python_position says.
    bool operator==(const LivePython&) const = default;
  };

  /// All that the rules know of a moment.
  struct State {
    std::vector<LiveFrame> native;   ///< Outermost first.
    std::vector<LivePython> python;  ///< Likewise.
    BuiltinCall outer_builtin{};   ///< Of the Python frame that was running when recording started,
    std::uint32_t outer_line = 0;  ///< and where that is.
    std::uint64_t asserted = 0;  ///< native[asserted - 1] is the last caller event's; 0: none was.
    bool operator==(const State&) const = default;
  };

  /// Both must outlive the rules.
  CallTreeRules(const CallTreeFunctions& functions, Nodes& nodes)
      : functions_(functions), nodes_(nodes) {}

  void add_initial(const InitialFrame& frame);

  /// The node of what the event entered; a self entry has the node of the entry that it repeats.
  /// kNone for the other kinds of event. Ops' events must be `placed`.
  std::uint32_t add(const Event& event);

  /// Which of the state's `python` the op is that ends with this event; none if it never began.
  static std::optional<std::size_t> op_that_ends(const State& state, const Event& event);

  const State& state() const { return state_; }
  void set_state(const State& state);

  /// How many frames, native and Python, have lived on since the last call of this.
  struct Kept {
    std::size_t native = 0;
    std::size_t python = 0;
  };
  Kept take_kept();

  const CallTreeStatistics& statistics() const { return statistics_; }
  CallTreeStatistics& statistics() { return statistics_; }

 private:
  // How far below a caller's return slot the one of its callee lies, for one return address.
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
  void note_position(const Event& event);
  std::size_t running_loop() const;
  std::size_t outermost_loop() const;
  void leave_native_frames();
  std::uint32_t add_live_python(const Event& event);
  std::uint32_t add_python_call(const Event& event);
  void end_python_call(const Event& event);
  std::uint32_t begin_node(const Event& event);
  void end_node();
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
  std::vector<std::uint32_t> live_counts_;  // By function: how often it is in state_.native.
  Kept kept_;
  CallTreeStatistics statistics_;
  std::unordered_map<std::uint64_t, Distance> distances_;
};

/// The tree of one thread of a timeline, each call a node of its own.
class CallTree {
 public:
  struct Node : CallTreeRules::Node {
    std::uint32_t index = 0;  ///< Of the event, or for initial of the initial frame.
  };

  /// Throws Error(usage) if an event names a function that the trace does not have.
  CallTree(const Trace& trace, const CallTreeFunctions& functions, const ThreadRecord& thread);

  /// Parents come before their children.
  std::span<const Node> nodes() const { return nodes_; }
  const CallTreeStatistics& statistics() const { return statistics_; }

  /// The node that an event made; a self entry has the node of the entry that it repeats. kNone
  /// for events that enter nothing.
  std::uint32_t node_of_event(std::size_t event) const { return node_of_event_[event]; }

  /// The event in which the caller of this function_entry was entered; for a self entry that of the
  /// first entry's caller. kNone for a root, and where the caller is a frame of the initial stack
  /// (node_of_event and Node::parent tell these apart).
  std::uint32_t parent_event(std::size_t event) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_event_;
  CallTreeStatistics statistics_;
};

/// Throws Error(usage) if the event names what the trace does not have; `index` and `thread` are
/// for the message.
void check_event(const Trace& trace, const Event& event, std::size_t index, std::uint64_t thread);

}  // namespace optrace
