#pragma once

// What the agent records: addresses only. It comes in two ways that share their parts.
//
// The raw recording, a file that the agent writes after a short run and that the command turns into
// a trace (tracer/trace/recording.h):
//
//   Header, then sections until the end of the file: SectionHeader | `size` bytes, padded to 8.
//
// The region, memory that the agent shares with a reader in the command
// (tracer/calltree/collector.h) while a program of any length runs: RegionHeader, then the arena
// (sections that only ever get more), then chunks of events that the reader empties and gives back.
//
// All addresses are run-time ones; a module's load bias ties them to the file.

#include <cstdint>

namespace optrace::recording {

constexpr char kMagic[8] = {'O', 'P', 'T', 'R', 'A', 'W', '\0', '\0'};
constexpr std::uint32_t kVersion = 4;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t python_missing;  // As in RegionHeader.
  std::uint64_t start_ticks;  // Time-stamp counter and CLOCK_MONOTONIC nanoseconds, read together,
  std::uint64_t start_nanoseconds;  // when recording started
  std::uint64_t stop_ticks;         // and when it stopped: their ratio turns ticks into time.
  std::uint64_t stop_nanoseconds;
};

enum class SectionKind : std::uint32_t {
  module = 1,           // Module, then its path (not terminated).
  probes = 2,           // ProbeRange.
  python_function = 3,  // PythonFunction, then name, file (not terminated) and position table.
  thread = 4,           // Thread, then InitialFrame[initial_count], then Event[event_count].
  end = 5,              // Empty; a recording without it is truncated.
  op_record = 6,        // OpRecord, then `size - sizeof(OpRecord)` bytes of JSON text.
  initial_stack = 7,    // Region only: Thread (no events), then InitialFrame[initial_count].
};

struct SectionHeader {
  SectionKind kind;
  std::uint32_t round;  // Region, initial_stack: the recording that it belongs to; else 0.
  std::uint64_t size;   // Bytes that follow, without the padding.
};

struct Module {
  std::uint64_t bias;         // Run-time address minus address as linked.
  std::uint64_t first, last;  // The run-time addresses that its loadable segments span.
  std::uint32_t build_id_size;
  std::uint8_t build_id[32];
  std::uint32_t path_size;
};

// Events with an id in [first_id, first_id + count) are hits of the probes of one plan, in the
// plan's order. `placed` of them were placed.
struct ProbeRange {
  std::uint32_t first_id;
  std::uint32_t count;
  std::uint32_t placed;     // In a region 0 until the plan has been placed.
  std::uint32_t path_size;  // The plan's path follows.
};

// In the order of their ids, from 0; no two are equal. The position table says which instruction is
// where in the file: the bytes that the code object has for that, whose format the interpreter's
// minor version decides (tracer/trace/python_positions.h).
struct PythonFunction {
  std::uint32_t first_line;
  std::uint32_t name_size;
  std::uint32_t file_size;
  std::uint32_t table_size;
  std::uint32_t minor_version;
  std::uint32_t reserved;
};

struct Thread {
  std::uint64_t id;  // gettid
  std::uint64_t lost;
  std::uint64_t initial_count;
  std::uint64_t event_count;
};

struct InitialFrame {            // Innermost first, as an unwinder meets them.
  std::uint64_t stack_pointer;   // The address of the frame's return slot: its CFA minus 8.
  std::uint64_t return_address;  // What the slot holds.
  std::uint64_t instruction;     // An address inside the frame's own function.
};

// What the op-record agent says of a call, the emulated device of what a library was asked for, and
// CUPTI of what a device did, once for all calls that are alike. Id 0 describes the torch at hand
// (names of dispatch keys); the ids of the others count from 1, in no particular order.
// docs/trace-format.md has the JSON's keys.
struct OpRecord {
  std::uint32_t id;
  std::uint32_t reserved;
};

// `id` below kFirstPythonEvent is a probe's; at and above it, what happened otherwise.
constexpr std::uint32_t kFirstPythonEvent = 0xF0000000;
constexpr std::uint32_t kPythonCall = kFirstPythonEvent + 0;
constexpr std::uint32_t kPythonReturn = kFirstPythonEvent + 1;
constexpr std::uint32_t kBuiltinCall = kFirstPythonEvent + 2;
constexpr std::uint32_t kBuiltinReturn = kFirstPythonEvent + 3;
// An op begins (at::RecordFunction's callbacks): `line` the op record's id, 0 if there was no room
// for it; `stack_pointer` the sequence number (all ones: none); the lower half of `return_address`
// the number that RecordFunction gives the thread. The upper half is the lower one of an eighth of
// the RecordFunction's address, which is in the stack frame that dispatches the op: frames below it
// have ended. 0 where it is elsewhere.
constexpr std::uint32_t kOpBegin = kFirstPythonEvent + 4;
// It ends: `line` the record of its results, 0 for none; the rest as in its begin.
constexpr std::uint32_t kOpEnd = kFirstPythonEvent + 5;
// An autograd node begins to run: `line` the record of its name, `stack_pointer` the sequence
// number of the forward op that made it, `return_address` the thread of that op, as in kOpBegin.
constexpr std::uint32_t kNodeBegin = kFirstPythonEvent + 6;
constexpr std::uint32_t kNodeEnd = kFirstPythonEvent + 7;
// The first two integer arguments of the last probe hit whose stack pointer ends in the 32 bits of
// `line`: `stack_pointer` is rdi, `return_address` rsi. Only for probes whose plan asks for it.
constexpr std::uint32_t kArguments = kFirstPythonEvent + 8;
// What a function decided on: `line` is the record's id, 0 if there was no room for it. That which
// was entered last where `stack_pointer` is 0. Else that is an address inside the calls that led
// there, as in kDeviceCall; if it is the return slot of what the thread enters next, it is about
// that function.
constexpr std::uint32_t kCallRecord = kFirstPythonEvent + 9;
// CUDA was called to have the device work: `return_address` is the number (CUPTI's correlation id)
// by which what the device does is known, `stack_pointer` an address inside the calls that led
// there: frames below it have ended.
constexpr std::uint32_t kDeviceCall = kFirstPythonEvent + 10;
// The device has done something, now or before, for whatever thread: `line` is the record that says
// what, 0 if there was no room for it; `stack_pointer` the number of the call that asked for it,
// `return_address` the nanoseconds that it took.
constexpr std::uint32_t kDeviceActivity = kFirstPythonEvent + 11;
// The innermost Python frame that runs a described function is now at another instruction: `line`
// is that instruction's offset in bytes, `return_address` the id of the function. Comes before what
// Python calls there, and not again while the frame stays there.
constexpr std::uint32_t kPythonPosition = kFirstPythonEvent + 12;
constexpr std::uint32_t kLastKind = kPythonPosition;
// A function without a probe that led to the probe hit behind it, after any others like it, which
// are its callers: it was on the stack at that moment. The low 16 bits of the id and `line` are the
// two halves of an address in it, at which a call of it returns; `stack_pointer` is the address of
// its return slot, and `return_address` what that holds, 0 where a thread begins.
constexpr std::uint32_t kCaller = 0xF8000000;

constexpr bool is_caller(std::uint32_t id) {
  return (id & 0xFFFF0000) == kCaller;
}
constexpr std::uint64_t address_in_caller(std::uint32_t id, std::uint32_t line) {
  return std::uint64_t{id & 0xFFFF} << 32 | line;
}

struct Event {
  std::uint32_t id;
  std::uint32_t line;  // Python events: python_call the caller's line, builtin_call the current
                       // one, where no kPythonPosition tells it; else 0.
  std::uint64_t
      stack_pointer;  // At the entry's first instruction; Python events: of the hook's frame.
  std::uint64_t return_address;  // Python events: the id of the Python function.
  std::uint64_t ticks;           // Time-stamp counter.
};

static_assert(sizeof(Header) == 48 && sizeof(SectionHeader) == 16 && sizeof(Event) == 32);

// The region. Whoever is named first in a field's comment writes it; all words that both use are
// accessed atomically.

constexpr char kRegionMagic[8] = {'O', 'P', 'T', 'R', 'E', 'G', '\0', '\0'};
constexpr std::uint32_t kRegionVersion = 3;
constexpr std::uint32_t kMaxPlanPathLength = 4096;
constexpr std::uint32_t kNoPythonEvents = 0x80000000;

struct RegionHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t process;        // Agent: getpid().
  std::uint64_t size;           // Agent: of all of it, in bytes. What follows is in the same file.
  std::uint64_t arena_offset;   // Agent: where sections lie,
  std::uint64_t arena_size;     // and how much room there is for them.
  std::uint64_t chunks_offset;  // Agent: where the chunks lie, a multiple of kChunkSize,
  std::uint32_t chunk_count;    // and how many there are.
  std::uint32_t recording;      // Agent: 1 while it records, 0 before and after.
  // Agent: as in Header; the stop ones are 0 while it records.
  std::uint64_t start_ticks, start_nanoseconds, stop_ticks, stop_nanoseconds;
  // Agent: bytes of the arena that are given out. A section is complete once its kind is not 0:
  // that is written last.
  std::uint64_t arena_used;
  std::uint64_t arena_lost;  // Agent: sections for which there was no room.
  std::uint64_t lost;        // Agent: events of threads that never got a chunk.

  std::uint32_t freed;    // Reader: counts the chunks given back; agent: a futex to wait on.
  std::uint32_t waiting;  // Agent: threads that wait for one.
  std::uint32_t
      heartbeat;       // Reader: changes whenever it looks, so that nobody waits for a dead one.
  std::uint32_t stop;  // Reader: not 0 when the agent is to stop recording at the next chance.
  // Reader: bumped once plan_path names a plan that is to be placed at the next chance (int3).
  std::uint32_t plan_wanted;
  std::uint32_t plan_done;   // Agent: plan_wanted, once it is placed.
  std::int32_t plan_result;  // Agent: what optrace_agent_place gave.
  // Agent: counts up when sections of modules that were loaded while it records are there.
  std::uint32_t modules_told;
  // Reader: modules_told, once it has no more plans for those: the agent waits for that, and then
  // none of their functions has run without its probe.
  std::uint32_t modules_seen;
  // Agent: how many times a thread's Python events had stopped, because its profile function was
  // taken away; kNoPythonEvents where the profile hook could not be used at all.
  std::uint32_t python_missing;
  char plan_path[kMaxPlanPathLength];
};

constexpr std::uint64_t kChunkSize = 64ULL * 1024;

enum class ChunkState : std::uint32_t {
  free = 0,    // All zeros behind the header.
  owned = 1,   // A thread writes into it. Events with a time are complete; the first one without is
               // where the next will be, or is being written.
  sealed = 2,  // The thread has taken another one. Only the reader makes it free again.
};

struct ChunkHeader {
  std::uint32_t state;   // ChunkState.
  std::uint32_t thread;  // gettid
  std::uint64_t order;   // Counts the chunks that were taken, so that a thread's are in order.
  std::uint64_t lost;    // The thread's events before this chunk that found no room.
  std::uint32_t round;   // The recording that it belongs to.
  std::uint32_t first;   // `order`, less the upper half, of the thread's first chunk in it: tells
};  // a new thread from an ended one whose number it got.
constexpr std::uint32_t kEventsPerChunk = kChunkSize / sizeof(Event) - 1;

static_assert(sizeof(ChunkHeader) == sizeof(Event));

}  // namespace optrace::recording
