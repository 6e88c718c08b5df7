#pragma once

#include <cstdint>

namespace optrace::agent {

// The calls of Python functions and builtins that have not ended, by thread. Most of them never
// reach a probe, so a call is recorded only when something inside it is: the probe then finds the
// thread's calls here. Of a call in which nothing was recorded, no event remains.
//
// A thread changes only its own calls. The record routine reads them in the middle of an arbitrary
// function, so all code here uses general registers only and takes no lock.

struct PythonCall {
  /// The function's frame object, or the builtin's function object. It is only compared.
  const void* object;
  std::uint64_t hook;  ///< Address in the frame of the profile function that reported the call.
  std::uint64_t loop;  ///< Return slot of the evaluation loop that reported it; 0: unknown.
  /// The interpreter's frame: that of the called function, or the one that calls the builtin. 0 if
  /// frames can't be read.
  std::uint64_t frame;
  std::uint64_t ticks;
  std::uint32_t function;  ///< Its id.
  std::uint32_t line;      ///< The caller's line if frames can't be read.
  bool builtin;
};

/// A function without a probe that is on the stack.
struct CallerFrame {
  std::uint64_t inside;          ///< Return address inside this function.
  std::uint64_t slot;            ///< Address of the function's own return slot.
  std::uint64_t return_address;  ///< Value of that slot; 0: no caller.
  bool is_loop;                  ///< The function is the evaluation loop.
};

/// How the return slot of an evaluation loop is found from the profile function that it called: the
/// return addresses on the way, which are compared, and their offsets from the hook's return slot.
struct LoopPath {
  static constexpr std::uint32_t kMaxFrames = 12;

  std::uint64_t first;  ///< The hook's return address; 0: not in use.
  std::uint32_t count;  ///< Number of frames between the hook and the loop.
  std::uint32_t traps_version;
  std::uint32_t offsets[kMaxFrames + 1];  ///< The last is that of the return address in the loop.
  std::uint64_t returns[kMaxFrames];
};

struct PythonStack {
  static constexpr std::uint32_t kMaxCalls = 8192;
  static constexpr std::uint32_t kMaxCallers = 8192;
  static constexpr std::uint32_t kLoopPaths = 16;  // A power of two.

  PythonStack* next;    ///< In the list of all stacks.
  std::uint32_t owner;  ///< From gettid().
  std::uint32_t round;  ///< Number of the recording that the calls belong to.
  std::uint32_t size;
  std::uint32_t recorded;  ///< The first `recorded` calls have been recorded.
  /// Return slot of the innermost loop that has been recorded and still runs the innermost recorded
  /// call; 0: unknown.
  std::uint64_t running_loop;
  /// The greatest `hook` of the calls that ended unrecorded while the thread's next event had the
  /// place `ran_before`; 0: none.
  std::uint64_t ran;
  std::uint64_t ran_ticks;
  std::uint64_t ran_before;
  bool in_use;  ///< The calls are being recorded.
  LoopPath paths[kLoopPaths];
  PythonCall calls[kMaxCalls];
  CallerFrame callers[kMaxCallers];
};

/// Returns the calling thread's stack for the recording `round`, or null if memory can't be
/// allocated. To be called with the GIL held.
PythonStack* python_stack(std::uint32_t round);

/// Adds a call. If there is no room for it, it is recorded immediately. `slot` and `frame_pointer`
/// are the hook's return slot and its caller's rbp.
void begin_python_call(std::uint32_t round, const PythonCall& call, std::uint64_t slot,
                       std::uint64_t frame_pointer);

/// Ends the call of this object and all calls inside it, and records its end if it was recorded.
/// Returns false if the call is unknown: it began before the recording.
bool end_python_call(std::uint32_t round, const void* object, std::uint64_t hook);

/// Discards the calls that have not been recorded, because the functions that are live are recorded
/// in another way.
void discard_pending_python(std::uint32_t round);

/// Adds a function that was live when recording began, which is recorded already.
void add_live_python_call(std::uint32_t round, const PythonCall& call);

/// Records every call, or, as by default, only those inside which something is recorded.
void record_every_python_call(bool on);

/// Records the thread's pending calls, which precede the next event, and the places on the stack of
/// the evaluation loops that run them.
void record_pending_python(std::uint32_t round);

}  // namespace optrace::agent

// Implemented in callers/callers.cpp, which unwinds the stack.
extern "C" {

/// Returns the return slot of the evaluation loop that called a profile function, or 0. `slot` is
/// the profile function's return slot, `frame_pointer` its caller's rbp.
std::uint64_t optrace_agent_loop_around(std::uint64_t slot, std::uint64_t frame_pointer);

/// Records the pending calls. `slot` is the return slot of a function that is running,
/// `frame_pointer` its caller's rbp.
void optrace_agent_record_python(std::uint64_t slot, std::uint64_t frame_pointer,
                                 std::uint32_t round);
}
