#pragma once

// The region: memory shared between the agent and a reader in the command
// (tracer/collect/collector.h) while a program runs. It contains a RegionHeader, then the arena
// (append-only sections, each a SectionHeader and `size` bytes, padded to 8), then chunks of events
// that the reader empties and returns.
//
// All addresses are run-time addresses; a module's load bias relates them to the file.

#include <cstdint>

#include <sys/stat.h>

namespace optrace::recording {

enum class SectionKind : std::uint32_t {
  module = 1,           // Module, then its path (not terminated).
  probes = 2,           // ProbeRange.
  python_function = 3,  // PythonFunction, then name, file (not terminated) and position table.
  op_record = 6,        // OpRecord, then `size - sizeof(OpRecord)` bytes of JSON text.
  initial_stack = 7,    // InitialStack, then InitialFrame[count].
};

struct SectionHeader {
  SectionKind kind;
  std::uint32_t round;  // Number of the recording for an initial_stack, else 0.
  std::uint64_t size;   // Number of bytes that follow, without the padding.
};

struct Module {
  std::uint64_t bias;         // Run-time address minus address as linked.
  std::uint64_t first, last;  // Run-time addresses of its loadable segments.
  std::uint32_t build_id_size;
  std::uint8_t build_id[32];
  std::uint32_t path_size;
};

// Events with an id in [first_id, first_id + count) are hits of one plan's probes, in the order of
// the plan. `placed` of the probes were placed.
struct ProbeRange {
  std::uint32_t first_id;
  std::uint32_t count;
  std::uint32_t placed;     // 0 until the plan has been placed.
  std::uint32_t path_size;  // Length of the plan's path, which follows.
};

// Sorted by id, starting at 0. Entries are unique. `calls` grows while the function is called,
// whether or not something is recorded in the call; entering a generator again is no call. The
// position table maps instructions to source positions. It is a copy of the code object's table,
// whose format depends on the interpreter's minor version (tracer/trace/python_positions.h).
struct PythonFunction {
  std::uint32_t first_line;
  std::uint32_t name_size;
  std::uint32_t file_size;
  std::uint32_t table_size;
  std::uint32_t minor_version;
  std::uint32_t calls;  // kUncounted for builtins, modules and the bodies of classes.
};
constexpr std::uint32_t kUncounted = 0xFFFFFFFF;

// The stack of the thread that starts a recording.
struct InitialStack {
  std::uint64_t thread;  // From gettid().
  std::uint64_t count;   // Number of frames.
};

struct InitialFrame {            // Innermost first, in unwinding order.
  std::uint64_t stack_pointer;   // Address of the frame's return slot: its CFA minus 8.
  std::uint64_t return_address;  // Content of the return slot.
  std::uint64_t instruction;     // An address inside the frame's own function.
};

// A description of a call, written by the op-record agent; of a library call, written by the
// emulated device; or of device activity, from CUPTI. Identical calls share one record. Id 0
// describes the PyTorch in use (names of dispatch keys); the other ids are numbered from 1 in no
// particular order. docs/trace-format.md lists the JSON keys.
struct OpRecord {
  std::uint32_t id;
  std::uint32_t reserved;
};

// An `id` below kFirstPythonEvent is that of a probe. The values from there on are the other kinds
// of event.
constexpr std::uint32_t kFirstPythonEvent = 0xF0000000;
// The calls of Python functions and builtins are recorded once something inside them is, with the
// time at which they began; a call in which nothing is recorded has no events.
constexpr std::uint32_t kPythonCall = kFirstPythonEvent + 0;
constexpr std::uint32_t kPythonReturn = kFirstPythonEvent + 1;
constexpr std::uint32_t kBuiltinCall = kFirstPythonEvent + 2;
constexpr std::uint32_t kBuiltinReturn = kFirstPythonEvent + 3;
// An op begins (at::RecordFunction's callbacks). `line` is the id of the op record, 0 if there was
// no room for it. `stack_pointer` is the sequence number; all ones: none. The lower half of
// `return_address` is RecordFunction's number of the thread. The upper half is the lower half of an
// eighth of the RecordFunction's address; frames below that address have ended, because it is in
// the stack frame that dispatches the op. It is 0 if the RecordFunction is elsewhere.
constexpr std::uint32_t kOpBegin = kFirstPythonEvent + 4;
// An op ends. `line` is the id of the record of its results, 0 for none; the other fields are as in
// kOpBegin.
constexpr std::uint32_t kOpEnd = kFirstPythonEvent + 5;
// An autograd node begins to run. `line` is the id of the record of its name, `stack_pointer` the
// sequence number of the forward op that created it, `return_address` the thread of that op as in
// kOpBegin.
constexpr std::uint32_t kNodeBegin = kFirstPythonEvent + 6;
constexpr std::uint32_t kNodeEnd = kFirstPythonEvent + 7;
// The first two integer arguments of the last probe hit whose stack pointer ends in the 32 bits of
// `line`: rdi in `stack_pointer`, rsi in `return_address`. Only for probes whose plan requests it.
constexpr std::uint32_t kArguments = kFirstPythonEvent + 8;
// A decision made by a function. `line` is the id of the record, 0 if there was no room for it. If
// `stack_pointer` is 0, the event belongs to the function that was entered last. Otherwise it is an
// address inside the calls that led to the event, as in kDeviceCall; if it is the return slot of
// the next function that the thread enters, the event belongs to that function. `return_address`
// is then that address or one above it: calls whose return slots are not above it have ended.
constexpr std::uint32_t kCallRecord = kFirstPythonEvent + 9;
// A CUDA call that gives the device work. `return_address` is CUPTI's correlation id, which
// identifies the resulting device activity. `stack_pointer` is an address inside the calls that led
// to it: frames below that address have ended.
constexpr std::uint32_t kDeviceCall = kFirstPythonEvent + 10;
// Device activity, now or earlier, for any thread. `line` is the id of the record that
// describes it, 0 if there was no room for it. `stack_pointer` and `return_address` contain an
// Activity (pack_activity()).
constexpr std::uint32_t kDeviceActivity = kFirstPythonEvent + 11;
// The innermost Python frame that runs a described function has reached another instruction. `line`
// is that instruction's offset in bytes, `return_address` the id of the function. The event
// precedes the calls made from there and is not repeated while the frame stays at that instruction.
constexpr std::uint32_t kPythonPosition = kFirstPythonEvent + 12;
// Python code has run since the last event, of which nothing was recorded. Only `stack_pointer` has
// a meaning, as in kPythonCall.
constexpr std::uint32_t kPythonRan = kFirstPythonEvent + 13;
// A call has returned a value. `line` is the number of the probe, as the id of a probe hit;
// `stack_pointer` is the address of the function's return slot, and `return_address` is rax.
constexpr std::uint32_t kReturnedValue = kFirstPythonEvent + 14;
constexpr std::uint32_t kLastKind = kReturnedValue;
// A function without a probe on the call path to the next probe hit. It was on the stack at that
// moment; its own callers of this kind precede it. The low 16 bits of the id and `line` are the two
// halves of a return address inside the caller. `stack_pointer` is the address of the caller's
// return slot and `return_address` the content of that slot, 0 where a thread begins.
constexpr std::uint32_t kCaller = 0xF8000000;

constexpr bool is_caller(std::uint32_t id) {
  return (id & 0xFFFF0000) == kCaller;
}
constexpr std::uint64_t address_in_caller(std::uint32_t id, std::uint32_t line) {
  return std::uint64_t{id & 0xFFFF} << 32 | line;
}

/// Device activity.
struct Activity {
  std::uint32_t call = 0;      // The correlation id of the call that requested it.
  std::uint64_t duration = 0;  // In nanoseconds.
  std::uint64_t age = 0;       // Nanoseconds from its start until the event; 0 if unknown.
};

// The duration has 40 bits, which is 18 minutes, and the age 56 bits.
constexpr unsigned kDurationBits = 40;
constexpr std::uint64_t kMaxDuration = (std::uint64_t{1} << kDurationBits) - 1;
constexpr std::uint64_t kMaxAge = (std::uint64_t{1} << 56) - 1;

struct PackedActivity {
  std::uint64_t stack_pointer;
  std::uint64_t return_address;
};

constexpr PackedActivity pack_activity(const Activity& activity) {
  const std::uint64_t duration =
      activity.duration < kMaxDuration ? activity.duration : kMaxDuration;
  const std::uint64_t age = activity.age <= kMaxAge ? activity.age : 0;
  return {activity.call | age << 32, duration | age >> 32 << kDurationBits};
}

constexpr Activity unpack_activity(std::uint64_t stack_pointer, std::uint64_t return_address) {
  return {static_cast<std::uint32_t>(stack_pointer), return_address & kMaxDuration,
          stack_pointer >> 32 | return_address >> kDurationBits << 32};
}

struct Event {
  std::uint32_t id;
  // Python events: the caller's line for kPythonCall, the current line for kBuiltinCall if no
  // kPythonPosition gives it; else 0.
  std::uint32_t line;
  // Value at the function's first instruction; Python events: that of the hook's frame.
  std::uint64_t stack_pointer;
  std::uint64_t return_address;  // Python events: the id of the Python function.
  std::uint64_t ticks;           // Time-stamp counter.
};

static_assert(sizeof(SectionHeader) == 16 && sizeof(Event) == 32);

// The region. The comment of each field names its writer first. Words that both sides use are
// accessed atomically.

constexpr char kRegionMagic[8] = {'O', 'P', 'T', 'R', 'E', 'G', '\0', '\0'};
constexpr std::uint32_t kRegionVersion = 8;
constexpr std::uint32_t kMaxPlanPathLength = 4096;
constexpr std::uint32_t kNoPythonEvents = 0x80000000;

struct RegionHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t process;  // Agent: getpid().
  std::uint64_t size;     // Agent: size of the region in bytes. All parts are in the same file.
  std::uint64_t arena_offset;   // Agent: offset of the sections.
  std::uint64_t arena_size;     // Agent: capacity for the sections in bytes.
  std::uint64_t chunks_offset;  // Agent: offset of the chunks, a multiple of kChunkSize.
  std::uint32_t chunk_count;    // Agent: number of chunks.
  std::uint32_t recording;      // Agent: 1 while recording, 0 before and after.
  // Agent: the inode of /proc/self/ns/pid, 0 if it is not known.
  std::uint64_t pid_namespace;
  // Agent: the time-stamp counter and CLOCK_MONOTONIC in nanoseconds, read together at the start
  // and at the stop of the recording. They determine the length of a tick. The stop values are 0
  // while recording.
  std::uint64_t start_ticks, start_nanoseconds, stop_ticks, stop_nanoseconds;
  // Agent: allocated bytes of the arena. A section is complete once its kind, which is written
  // last, is not 0.
  std::uint64_t arena_used;
  std::uint64_t arena_lost;  // Agent: sections for which there was no room.
  std::uint64_t lost;        // Agent: lost events of threads that never got a chunk.

  // Agent: nanoseconds for which threads waited for a chunk, those of all threads together.
  std::uint64_t waited;

  // Reader: number of chunks returned so far. The agent uses it as a futex to wait on.
  std::uint32_t freed;
  std::uint32_t waiting;  // Agent: number of threads that wait for a chunk.
  // Reader: changes whenever the reader looks, so that the agent does not wait for a dead one.
  std::uint32_t heartbeat;
  // Reader: its PID in the agent's PID namespace, so that a killed reader is noticed; 0 if it is
  // not known.
  std::uint32_t reader;
  // Reader: not 0 when the agent is to stop recording at the next opportunity.
  std::uint32_t stop;
  // Reader: incremented once plan_path names a plan to be placed at the next opportunity (int3).
  std::uint32_t plan_requested;
  std::uint32_t plan_done;   // Agent: set to plan_requested once that plan is placed.
  std::int32_t plan_result;  // Agent: result of optrace_agent_place.
  // Agent: incremented when the sections of modules loaded while recording are complete.
  std::uint32_t modules_reported;
  // Reader: set to modules_reported once it has no more plans for those modules. The agent waits
  // for this, so that none of their functions runs without its probe.
  std::uint32_t modules_seen;
  // Agent: incremented before an event that may refer to a module without a section, and the value
  // up to which those modules have sections. A module may call Python while it is being loaded.
  std::uint32_t modules_met, modules_put;
  // Agent: number of times that a thread's Python events had stopped because its profile function
  // was removed; kNoPythonEvents if the profile hook could not be used at all.
  std::uint32_t python_missing;
  // Agent: number of times that Python has forked the process, and 1 from a call of exec on.
  std::uint32_t forks, replaced;
  char plan_path[kMaxPlanPathLength];
};

/// Returns the inode of this process's /proc/self/ns/pid, 0 if it is not known.
inline std::uint64_t own_pid_namespace() {
  struct stat status{};
  return ::stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

constexpr std::uint64_t kChunkSize = 64ULL * 1024;

enum class ChunkState : std::uint32_t {
  free = 0,  // All zeros after the header.
  // A thread writes into it. Events with a time are complete; the first one without a time is the
  // next to be written, possibly being written.
  owned = 1,
  // The thread has taken another chunk. Only the reader makes it free again.
  sealed = 2,
};

struct ChunkHeader {
  std::uint32_t state;   // A ChunkState.
  std::uint32_t thread;  // From gettid().
  // Running number of the chunk, which orders the chunks of a thread.
  std::uint64_t order;
  // Number of the thread's events before this chunk for which there was no room.
  std::uint64_t lost;
  std::uint32_t round;  // Number of the recording.
  // Low half of `order` of the thread's first chunk in the recording. It distinguishes a new thread
  // from an ended one with the same thread id.
  std::uint32_t first;
};
constexpr std::uint32_t kEventsPerChunk = kChunkSize / sizeof(Event) - 1;

static_assert(sizeof(ChunkHeader) == sizeof(Event));

}  // namespace optrace::recording
