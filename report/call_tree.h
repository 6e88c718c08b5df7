#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tracer/trace.h"

namespace optrace {

/// What the rules of the call tree need to know about each function of a trace, worked out once
/// and shared by its threads. Refers to the trace, which must outlive it.
class CallTreeFunctions {
 public:
  explicit CallTreeFunctions(const Trace& trace);

  std::size_t count() const { return identities_.size(); }
  std::size_t python_count() const { return python_count_; }

  /// The function itself; for a part that GCC moved away (`f.cold`), the function that it is of,
  /// because that is the one that has an entry.
  std::uint32_t identity(std::uint32_t function) const { return identities_[function]; }
  bool probed(std::uint32_t function) const { return probed_[function] != 0; }
  bool enters_itself(std::uint32_t function) const { return enters_itself_[function] != 0; }
  /// CPython's evaluation loop, whose frame stands for Python frames.
  bool is_evaluation_loop(std::uint32_t function) const { return evaluation_loop_[function] != 0; }
  /// A function of optrace's agent, which runs in the traced process without being probed.
  bool is_agent(std::uint32_t function) const { return agent_[function] != 0; }
  /// True if the code of `from` (its moved-away parts included) can jump to the entry of `to`.
  bool can_jump(std::uint32_t from, std::uint32_t to) const;
  /// True if only an indirect jump, whose target the code does not show, explains `from` to `to`.
  bool jump_is_indirect(std::uint32_t from, std::uint32_t to) const;

 private:
  bool jumps_directly(std::uint32_t from, std::uint32_t to) const;

  std::vector<std::uint32_t> identities_;
  std::vector<std::uint8_t> probed_;
  std::vector<std::uint8_t> enters_itself_;
  std::vector<std::uint8_t> evaluation_loop_;
  std::vector<std::uint8_t> agent_;
  std::vector<std::uint8_t> jumps_indirectly_;
  std::vector<std::vector<std::uint32_t>> tail_calls_;  // Sorted.
  std::size_t python_count_ = 0;
};

/// The calls of one thread as a tree, rebuilt from entries alone: nothing records a function's end.
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
///  5. If C is not probed, or nobody knows what holds R, the innermost frame left is taken for the
///     parent, and the entry is counted as `unprobed_callers`.
///
/// Python frames nest by their calls and returns, and belong to the frame of the evaluation loop
/// that runs them: the innermost live one that has not lost all its Python frames (Python up to
/// 3.10 has one loop a call; from 3.11 on, one for many). A native frame whose parent is such a
/// loop is shown under the innermost Python frame in it. Where no evaluation loop is probed, the
/// order of events alone decides, and what happens in a Python frame ends the native frames inside.
class CallTree {
 public:
  struct Node {
    enum class Kind : std::uint8_t { initial, function, python };
    Kind kind = Kind::function;
    bool tail_call = false;        ///< Entered by a jump from `parent`, which left no frame.
    std::uint32_t what = kNone;    ///< A function of the trace, or for python a Python function.
    std::uint32_t index = 0;       ///< Of the event, or for initial of the initial frame.
    std::uint32_t parent = kNone;  ///< A node before this one: the caller; python: its loop's.
    std::uint32_t shown_under = kNone;  ///< As `parent`, with Python frames in their place.
    std::uint32_t line = 0;         ///< Of Python code: where `shown_under`, if Python, calls this.
    std::uint32_t builtin = kNone;  ///< The Python function as which Python called this.
  };

  /// How sure the tree is. Every rule that had to choose counts here.
  struct Statistics {
    std::uint64_t entries = 0;
    std::uint64_t roots = 0;                    ///< Rule 4, and entries with nothing above them.
    std::uint64_t tail_calls = 0;               ///< Rule 2.
    std::uint64_t indirect_tail_calls = 0;      ///< ... of which through a register or memory.
    std::uint64_t self_entries = 0;             ///< Rule 2.
    std::uint64_t unprobed_callers = 0;         ///< Rule 5.
    std::uint64_t recursive_callers = 0;        ///< Rule 3 with no known distance: innermost taken.
    std::uint64_t unmatched_python_events = 0;  ///< Returns of what was never seen to start.
  };

  /// Throws Error(usage) if an event names a function that the trace does not have.
  CallTree(const CallTreeFunctions& functions, const ThreadRecord& thread);

  /// Parents come before their children.
  std::span<const Node> nodes() const { return nodes_; }
  const Statistics& statistics() const { return statistics_; }

  /// The node that an event made; a self entry has the node of the entry that it repeats. kNone
  /// for python_return, builtin_call and builtin_return.
  std::uint32_t node_of_event(std::size_t event) const { return node_of_event_[event]; }

  /// The event in which the caller of this function_entry was entered; for a self entry that of the
  /// first entry's caller. kNone for a root, and where the caller is a frame of the initial stack
  /// (node_of_event and Node::parent tell these apart).
  std::uint32_t parent_event(std::size_t event) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> node_of_event_;
  Statistics statistics_;
};

}  // namespace optrace
