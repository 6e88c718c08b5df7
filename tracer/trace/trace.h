#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {

/// What a trace file holds. The in-process agent records addresses only; before the file is
/// written, the command adds what the modules on its own disk say about each address that occurs
/// (symbol, size, jumps), so that a trace can be read on a machine that has no PyTorch.

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// A loaded ELF file.
struct TraceModule {
  std::string path;      ///< As the traced process saw it.
  std::string build_id;  ///< Lower-case hex; empty if the file has none.
};

/// A native function that an event, a return address or the initial stack names.
struct TraceFunction {
  std::uint32_t module = kNone;  ///< Index into modules; kNone for code outside every file (JIT).
  std::uint64_t address = 0;  ///< Of its entry, as linked (st_value), or absolute outside modules.
  std::string symbol;         ///< Mangled, as in .symtab; empty when nothing names it.
  std::string source_file;    ///< The STT_FILE symbol above a local symbol; empty if unknown.
  bool probed = false;
  bool enters_itself = false;  ///< Its body branches to its own entry: an entry may be a loop turn.
  bool jumps_indirectly = false;  ///< Its body has a `jmp` through a register or memory.
  /// Functions that its body jumps to directly, or was seen to jump to through others unprobed.
  std::vector<std::uint32_t> tail_calls;
};

/// A Python function, or a builtin that Python called.
struct PythonFunction {
  std::string name;  ///< `torch.nn.modules.conv.Conv2d.forward`; builtins: `torch.conv2d`.
  std::string file;  ///< Absolute, as co_filename has it; empty for a builtin.
  std::uint32_t first_line = 0;
};

enum class EventKind : std::uint8_t {
  function_entry =
      0,  ///< A probe hit. `what` is a function, `caller` the one that holds the return address.
  python_call =
      1,  ///< A Python function starts. `what` is a Python function, `line` its caller's line.
  python_return = 2,  ///< It ends (return, yield or exception). `what` as above.
  builtin_call = 3,   ///< Python is about to call a builtin. `what` is it, `line` the calling line.
  builtin_return = 4,  ///< It ended (return or exception).
  op_begin = 5,    ///< A dispatcher op. `what` is an op record or 0; `stack_pointer` its sequence
                   ///< number, all ones for none; `return_address` RecordFunction's thread number,
                   ///< and in the upper half where it is: an eighth of its stack address, 0 if
                   ///< unknown (recording_format.h).
  op_end = 6,      ///< `what` is the op record of its results, or 0; numbers as in its begin.
  node_begin = 7,  ///< An autograd node. `what` names it; numbers as in the op that made it.
  node_end = 8,
  arguments = 9,  ///< Of an entry before: its first two integer arguments, in `stack_pointer` and
                  ///< `return_address`; `line` the low half of its stack pointer, `what` is 0.
  call_record = 10,  ///< What a function decided on: `what` is an op record or 0. That entered
                     ///< last, or by `stack_pointer` as in recording_format.h.
  device_call = 11,  ///< CUDA was called to have the device work: `return_address` is the number of
                     ///< that call, frames below `stack_pointer` have ended, `what` is 0.
  device_activity = 12,  ///< The device did that: `what` is an op record or 0, `stack_pointer` the
                         ///< number of the call, `return_address` how long it took (nanoseconds).
  python_position = 13,  ///< The innermost Python frame is elsewhere now: `what` is its function,
                         ///< `line` where it is. Line 0: nobody knows, not even in which function.
  caller = 14,  ///< A function without a probe is on the stack, and led to the function_entry
                ///< behind it. `what` is it; the rest as in function_entry, `caller` kNone and
                ///< `return_address` 0 where a thread begins.
};

/// The kinds whose `line` is one.
constexpr bool has_position(EventKind kind) {
  return (kind >= EventKind::python_call && kind <= EventKind::builtin_return) ||
         kind == EventKind::python_position;
}

struct Event {
  EventKind kind = EventKind::function_entry;
  std::uint32_t what = kNone;
  std::uint32_t caller = kNone;  ///< function_entry and caller only: an index into functions, kNone
                                 ///< if unknown.
  std::uint32_t line = 0;  ///< Python kinds (0 if unknown) and arguments only. A call's, where
                           ///< no python_position before it tells the same.
  std::uint64_t stack_pointer =
      0;  ///< At function_entry: rsp at the first instruction, so the address of the return slot.
  std::uint64_t return_address =
      0;  ///< As linked in the caller's module, or absolute outside modules. Where
          ///< `line` is one: its column in the upper half, its end column in the lower.
  std::uint64_t time = 0;  ///< Nanoseconds since recording started.
};

/// A frame that was live when recording started on a thread, outermost first.
struct InitialFrame {
  std::uint32_t function = kNone;
  std::uint64_t stack_pointer = 0;  ///< The address of its return slot (CFA - 8).
  std::uint64_t return_address = 0;
};

enum class PathKind : std::uint8_t {
  function = 0,  ///< `what` is a function that was entered.
  python = 1,    ///< `what` is a Python function.
  initial = 2,   ///< `what` is a function that was live when recording started.
  node = 3,      ///< An autograd node ran: `what` is the op record that names it, or kNone.
  op = 4,        ///< An op was called by no step of at::_ops: `what` is an op record of that op.
  merged = 5,  ///< "...": what had no room, or was too deep, each function once below it. `what` is
               ///< kNone. Whatever called it is at or below the parent.
};

/// How often a path was taken with an op call, and results, of one kind.
struct OpTally {
  std::uint32_t record = 0;   ///< Index into op_records; 0: the record found no room.
  std::uint32_t results = 0;  ///< Likewise, of what the op gave back; 0: not recorded.
  std::uint64_t calls = 0;
  bool operator==(const OpTally&) const = default;
};

/// How often a path was taken with these first two integer arguments: one of them is the
/// DispatchKeySet of a redispatch, the second where the first is where the result goes.
struct ArgumentTally {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t calls = 0;
  bool operator==(const ArgumentTally&) const = default;
};

/// How often the device did one kind of thing (a kernel with its grid, a copy) for calls that took
/// a path, and the nanoseconds that it took: all together, the shortest and the longest.
struct ActivityTally {
  std::uint32_t record = 0;  ///< Index into op_records; 0: the record found no room.
  std::uint64_t times = 0;
  std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
  bool operator==(const ActivityTally&) const = default;
};

/// A way through the calls, counted: what is entered from where, however often.
struct TracePath {
  PathKind kind = PathKind::function;
  bool tail_call = false;        ///< Entered by a jump from the parent, which left no frame.
  std::uint32_t parent = kNone;  ///< A path before this one; kNone for a root.
  std::uint32_t what = kNone;    ///< As `kind` says.
  std::uint32_t line = 0;        ///< Of Python code that calls it; 0 if unknown.
  std::uint32_t column = 0;      ///< From there to `end_column` (exclusive) in `end_line`, as
  std::uint32_t end_line = 0;    ///< CodePosition counts (python_positions.h); 0 if unknown.
  std::uint32_t end_column = 0;
  std::uint32_t builtin = kNone;    ///< The Python function as which Python called it.
  std::uint32_t thread = 0;         ///< Index into threads: the first that took it.
  std::uint32_t thread_count = 1;   ///< How many threads took it.
  std::uint32_t caused_by = kNone;  ///< node: the path of the forward op that made the node.
  std::uint64_t calls = 0;          ///< 0 for a path that only leads to counted ones.
  /// Nanoseconds from an entry until something outside of it was recorded (an upper bound: a
  /// function's end is not recorded), or until its recorded end where it has one (Python functions,
  /// ops, nodes): of all calls that ended, the shortest and the longest.
  std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
  /// Dispatcher steps: their op records. Calls of libraries: what they were asked for; no results.
  /// At most kMaxTallies, by first call.
  std::vector<OpTally> ops{};
  std::vector<ArgumentTally> arguments{};   ///< Likewise, of redispatches.
  std::uint64_t ops_left_out = 0;           ///< Calls with op records beyond those.
  std::vector<ActivityTally> activities{};  ///< At most kMaxActivities, by first.
  std::uint64_t activities_left_out = 0;    ///< Activities beyond those.
};
constexpr std::size_t kMaxTallies = 16;
constexpr std::size_t kMaxActivities = 1024;  ///< The replay of a graph has hundreds.

struct ThreadRecord {
  std::uint64_t id = 0;  ///< As gettid gives it.
  std::vector<InitialFrame> initial_stack;
  std::vector<Event> events;  ///< In the order in which they happened; only in a timeline.
  std::uint64_t lost = 0;     ///< Events that found no room.
};

/// How sure the call tree is. Every rule that had to choose counts here (call_tree.h).
struct CallTreeStatistics {
  std::uint64_t entries = 0;
  std::uint64_t roots = 0;                    ///< Rule 4, and entries with nothing above them.
  std::uint64_t tail_calls = 0;               ///< Rule 2.
  std::uint64_t indirect_tail_calls = 0;      ///< ... of which through a register or memory.
  std::uint64_t self_entries = 0;             ///< Rule 2.
  std::uint64_t unprobed_callers = 0;         ///< Rule 5.
  std::uint64_t recursive_callers = 0;        ///< Rule 3 with no known distance: innermost taken.
  std::uint64_t unmatched_python_events = 0;  ///< Returns of what was never seen to start.
  bool operator==(const CallTreeStatistics&) const = default;
};

/// All of them, in the order in which a trace file has them.
constexpr std::uint64_t CallTreeStatistics::* kCallTreeStatistics[] = {
    &CallTreeStatistics::entries,           &CallTreeStatistics::roots,
    &CallTreeStatistics::tail_calls,        &CallTreeStatistics::indirect_tail_calls,
    &CallTreeStatistics::self_entries,      &CallTreeStatistics::unprobed_callers,
    &CallTreeStatistics::recursive_callers, &CallTreeStatistics::unmatched_python_events};

struct Trace {
  /// What was traced, for the report's header; keys in docs/trace-format.md:
  /// {"torch": {"version","git_version","cuda","debug"}, "device", "python", "op", "call",
  ///  "inputs": [{"name","shape","dtype","device"}], "backward", "probes":
  ///  {"mode","placed","failed"}, "op_names": {"add_Tensor": "aten::add.Tensor", ...},
  ///  "torch_folder", "dispatch_tables": {"aten::add.Tensor": what
  ///  torch._C._dispatch_dump_table gives}, "warnings": [text, ...]}
  nlohmann::json meta;
  std::vector<TraceModule> modules;
  std::vector<TraceFunction> functions;
  std::vector<PythonFunction> python_functions;
  std::vector<ThreadRecord> threads;
  std::vector<TracePath> paths;         ///< Parents before their children.
  std::vector<std::string> op_records;  ///< JSON texts, each an object; [0] describes the torch.
  CallTreeStatistics statistics;        ///< How sure the paths are.
};

/// Counts in a trace's meta something that the trace lacks, and that a verdict must heed:
/// meta["shortfalls"] is {kind: count}. The kinds are in report/model/shortfalls.cpp.
void note_shortfall(nlohmann::json& meta, const char* kind, std::uint64_t count = 1);

/// What of a trace is wanted.
enum class TraceParts : std::uint8_t {
  all,
  without_events,  ///< Threads come without initial stacks and events, which are most of a
                   ///< timeline.
};

/// Throws Error(usage) when `path` is no trace, truncated, corrupt, or of an unknown version.
Trace read_trace(const std::filesystem::path& path, TraceParts parts = TraceParts::all);

/// Writes whole or not at all (OutputFile). Compressed; the format is in docs/trace-format.md.
void write_trace(const Trace& trace, const std::filesystem::path& path);

}  // namespace optrace
