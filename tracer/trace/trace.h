#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tracer/trace/trace_meta.h"

namespace optrace {

/// The contents of a trace file. The in-process agent records addresses only. Before the file is
/// written, the command adds information from the modules on its disk (symbol, size, jumps) for
/// each address that occurs, so that a trace can be read on a machine without PyTorch.

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

/// A loaded ELF file.
struct TraceModule {
  std::string path;      ///< As the traced process saw it.
  std::string build_id;  ///< Lower-case hex; empty if the file has none.
  /// The file had debug info. Paths then tell the calls of its functions apart
  /// (TracePath::call_offset).
  bool debug_info = false;
};

/// A native function that occurs in an event, a return address or the initial stack.
struct TraceFunction {
  std::uint32_t module = kNone;  ///< Index into modules; kNone for code outside every file (JIT).
  std::uint64_t address = 0;     ///< Entry, as linked (st_value), or absolute outside modules.
  std::string symbol;            ///< Mangled, as in .symtab; empty if unknown.
  std::string source_file;       ///< The STT_FILE symbol above a local symbol; empty if unknown.
  bool probed = false;
  /// Its body branches to its own entry: an entry may be an iteration of a loop.
  bool enters_itself = false;
  bool jumps_indirectly = false;  ///< Its body has a `jmp` through a register or memory.
  /// Functions that its body jumps to directly, or was observed to jump to through unprobed
  /// functions.
  std::vector<std::uint32_t> tail_calls;
};

/// A Python function, or a builtin that Python called.
struct PythonFunction {
  std::string name;  ///< `torch.nn.modules.conv.Conv2d.forward`; builtins: `torch.conv2d`.
  std::string file;  ///< Absolute path from co_filename; empty for a builtin.
  std::uint32_t first_line = 0;
};

enum class EventKind : std::uint8_t {
  /// A probe hit. `what` is a function, `caller` the function that contains the return address.
  function_entry = 0,
  /// A Python function starts. `what` is a Python function, `line` its caller's line.
  python_call = 1,
  /// A Python function ends (return, yield or exception). `what` as in python_call.
  python_return = 2,
  /// Python is about to call a builtin. `what` is the builtin, `line` the calling line.
  builtin_call = 3,
  builtin_return = 4,  ///< A builtin ended (return or exception).
  /// A dispatcher op begins. `what` is an op record or 0; `stack_pointer` its sequence number, all
  /// ones for none. `return_address` contains RecordFunction's thread number, and in the upper half
  /// an eighth of the RecordFunction's stack address, 0 if unknown (recording_format.h).
  op_begin = 5,
  /// A dispatcher op ends. `what` is the op record of its results, or 0; other fields as in
  /// op_begin.
  op_end = 6,
  /// An autograd node begins. `what` is its name's record; numbers as in the op that created it.
  node_begin = 7,
  node_end = 8,
  /// The first two integer arguments of an earlier entry, in `stack_pointer` and `return_address`.
  /// `line` is the low half of that entry's stack pointer; `what` is 0.
  arguments = 9,
  /// A decision of a function. `what` is an op record or 0. Belongs to the function entered last,
  /// or to the one that `stack_pointer` selects (kCallRecord in recording_format.h).
  call_record = 10,
  /// A CUDA call that starts work on the device. `return_address` is the number of the call. Frames
  /// below `stack_pointer` have ended; `what` is 0.
  device_call = 11,
  /// Work done by the device. `what` is an op record or 0; `stack_pointer` and `return_address`
  /// contain the number of the device_call, the duration and the start (pack_activity() in
  /// recording_format.h).
  device_activity = 12,
  /// The innermost Python frame has moved. `what` is its function, `line` its line. With line 0,
  /// both are unknown.
  python_position = 13,
  /// Python code has run since the thread's last event, of which nothing was recorded. `what` is 0,
  /// `stack_pointer` as in python_call.
  python_ran = 14,
  /// A function without a probe that is on the stack and led to the next function_entry. `what` is
  /// that function; other fields as in function_entry. Where a thread begins, `caller` is kNone and
  /// `return_address` is 0.
  caller = 15,
  /// A call has returned a value, whose low half is `what` and whose high half is `line`.
  /// `stack_pointer` is the address of the function's return slot, `return_address` as linked.
  /// Never in a trace: the values are counted for each path (ReturnCount).
  returned = 16,
};

/// Returns true for kinds whose `line` is a source line.
constexpr bool has_position(EventKind kind) {
  return (kind >= EventKind::python_call && kind <= EventKind::builtin_return) ||
         kind == EventKind::python_position;
}

struct Event {
  EventKind kind = EventKind::function_entry;
  std::uint32_t what = kNone;
  /// function_entry and caller only: an index into functions, kNone if unknown.
  std::uint32_t caller = kNone;
  /// Python kinds (0 if unknown) and arguments only. A call has a line only if no python_position
  /// event before it gives the line.
  std::uint32_t line = 0;
  /// At function_entry: rsp at the first instruction, which is the address of the return slot.
  std::uint64_t stack_pointer = 0;
  /// As linked in the caller's module, or absolute outside modules. For kinds with a position: the
  /// column in the upper half, the end column in the lower half.
  std::uint64_t return_address = 0;
  std::uint64_t time = 0;  ///< Nanoseconds from TraceMeta::start_unix_ns.
};

/// A frame that was live when recording started on a thread.
struct InitialFrame {
  std::uint32_t function = kNone;
  std::uint64_t stack_pointer = 0;  ///< The address of its return slot (CFA - 8).
  std::uint64_t return_address = 0;
};

enum class PathKind : std::uint8_t {
  function = 0,  ///< `what` is a function that was entered.
  python = 1,    ///< `what` is a Python function.
  initial = 2,   ///< `what` is a function that was live when recording started.
  node = 3,      ///< An autograd node. `what` is the op record of its name, or kNone.
  op = 4,        ///< An op not called through a step of at::_ops. `what` is one of its op records.
  /// The frame "...", which stands for calls that had no room or were too deep. Each function
  /// occurs once below it. `what` is kNone. Its caller is at or below the parent.
  merged = 5,
  inlined = 6,  ///< An inlined function. Only in reports (ReportPath), never in a trace.
};

/// The number of calls of a path with the same op call and the same results.
struct OpCallCount {
  std::uint32_t record = 0;   ///< Index into op_records; 0 if there was no room for the record.
  std::uint32_t results = 0;  ///< Likewise, for the op's results; 0 if not recorded.
  std::uint64_t calls = 0;
  bool operator==(const OpCallCount&) const = default;
};

/// The number of calls of a path with these first two integer arguments. The DispatchKeySet of a
/// redispatch is the first one, or the second one if the first is the address of the result.
struct ArgumentCount {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  std::uint64_t calls = 0;
  bool operator==(const ArgumentCount&) const = default;
};

/// The number of calls of a path that returned a value. Calls whose value was not recorded are
/// counted nowhere.
struct ReturnCount {
  /// The low bytes of rax, as many as the function's result has.
  std::uint64_t value = 0;
  std::uint64_t calls = 0;
  bool operator==(const ReturnCount&) const = default;
};

/// The number of times that the device did one kind of work (a kernel with its grid, a copy) for
/// calls of a path, with the total, shortest and longest duration in nanoseconds.
struct ActivityCount {
  std::uint32_t record = 0;  ///< Index into op_records; 0 if there was no room for the record.
  std::uint64_t times = 0;
  std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
  bool operator==(const ActivityCount&) const = default;
};

/// A call path: all calls of the same thing from the same parent, with counts.
struct TracePath {
  PathKind kind = PathKind::function;
  bool tail_call = false;         ///< Entered by a tail call from the parent.
  std::uint32_t parent = kNone;   ///< Index of an earlier path; kNone for a root.
  std::uint32_t what = kNone;     ///< Meaning depends on `kind`.
  std::uint32_t line = 0;         ///< Line of the calling Python code; 0 if unknown.
  std::uint32_t column = 0;       ///< Start column in `line` (CodePosition); 0 if unknown.
  std::uint32_t end_line = 0;     ///< Line in which the call ends; 0 if unknown.
  std::uint32_t end_column = 0;   ///< End column in `end_line`, exclusive; 0 if unknown.
  std::uint32_t builtin = kNone;  ///< The Python function by which Python called it.
  /// The call's return address minus the entry of the parent's function, modulo 2^32. 0 if it is
  /// unknown, or the function's module has no debug info.
  std::uint32_t call_offset = 0;
  std::uint32_t thread = 0;         ///< The first thread that took it (index into threads).
  std::uint32_t thread_count = 1;   ///< Number of threads that took it.
  std::uint32_t caused_by = kNone;  ///< For a node: the path of the forward op that created it.
  std::uint64_t calls = 0;          ///< 0 for a path that only leads to counted ones.
  /// Total, shortest and longest duration in nanoseconds of all calls that ended. A Python
  /// function, op or node lasts until its recorded end. The end of other functions is not recorded:
  /// they last until the next recorded event outside of them, which is an upper bound.
  std::uint64_t total_time = 0, shortest_time = 0, longest_time = 0;
  /// Op records of dispatcher steps; for calls of libraries, records of the requests, without
  /// results. At most kMaxCounts, ordered by first call.
  std::vector<OpCallCount> ops{};
  /// First arguments of redispatches. At most kMaxCounts, ordered by first call.
  std::vector<ArgumentCount> arguments{};
  std::uint64_t ops_left_out = 0;           ///< Calls with op records beyond kMaxCounts.
  std::vector<ActivityCount> activities{};  ///< At most kMaxActivities, ordered by first.
  std::uint64_t activities_left_out = 0;    ///< Activities beyond kMaxActivities.
  std::vector<ReturnCount> returned{};      ///< At most kMaxCounts, ordered by first.
  std::uint64_t returned_left_out = 0;      ///< Values of calls beyond kMaxCounts.
};
constexpr std::size_t kMaxCounts = 16;
constexpr std::size_t kMaxActivities = 1024;  ///< Replaying a CUDA graph takes hundreds.

struct ThreadRecord {
  std::uint64_t id = 0;                     ///< From gettid.
  std::vector<InitialFrame> initial_stack;  ///< Outermost first.
  std::vector<Event> events;                ///< In chronological order; only in a timeline.
  std::uint64_t lost = 0;                   ///< Events dropped for lack of room.
};

/// Measures the accuracy of the call tree: how often each rule that has to choose applied
/// (call_tree.h).
struct CallTreeStatistics {
  std::uint64_t entries = 0;
  /// Rule 4, and entries without a live frame above them.
  std::uint64_t roots = 0;
  std::uint64_t tail_calls = 0;               ///< Rule 2.
  std::uint64_t indirect_tail_calls = 0;      ///< Those of tail_calls through a register or memory.
  std::uint64_t self_entries = 0;             ///< Rule 2.
  std::uint64_t unprobed_callers = 0;         ///< Rule 6.
  std::uint64_t recursive_callers = 0;        ///< Rule 3 without a known distance: innermost taken.
  std::uint64_t unmatched_python_events = 0;  ///< Returns whose start was not recorded.
  bool operator==(const CallTreeStatistics&) const = default;
};

/// All statistics, in the order of the trace file.
constexpr std::uint64_t CallTreeStatistics::* kCallTreeStatistics[] = {
    &CallTreeStatistics::entries,           &CallTreeStatistics::roots,
    &CallTreeStatistics::tail_calls,        &CallTreeStatistics::indirect_tail_calls,
    &CallTreeStatistics::self_entries,      &CallTreeStatistics::unprobed_callers,
    &CallTreeStatistics::recursive_callers, &CallTreeStatistics::unmatched_python_events};

struct Trace {
  TraceMeta meta;
  std::vector<TraceModule> modules;
  std::vector<TraceFunction> functions;
  std::vector<PythonFunction> python_functions;
  std::vector<ThreadRecord> threads;
  std::vector<TracePath> paths;         ///< Parents before their children.
  std::vector<std::string> op_records;  ///< JSON texts, each an object; [0] describes PyTorch.
  CallTreeStatistics statistics;        ///< Accuracy of the paths.
};

/// The parts of a trace to read.
enum class TraceParts : std::uint8_t {
  all,
  /// Threads have no initial stacks and events, which are most of a timeline.
  without_events,
};

/// Throws Error(usage) if `path` is not a trace, is truncated or corrupt, or has an unknown
/// version.
Trace read_trace(const std::filesystem::path& path, TraceParts parts = TraceParts::all);

/// Same, into a trace that was read before or is empty, whose memory is used again.
void read_trace(const std::filesystem::path& path, TraceParts parts, Trace& trace);

/// Writes the whole file or nothing (OutputFile). The file is compressed; docs/trace-format.md
/// describes its format.
void write_trace(const Trace& trace, const std::filesystem::path& path);

}  // namespace optrace
