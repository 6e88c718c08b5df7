#pragma once

// The raw recording: what the agent hands out after a run, addresses only. The command turns it
// into a trace (tracer/recording.h) and throws it away; it lives in a private folder meanwhile.
//
//   Header, then sections until the end of the file: SectionHeader | `size` bytes, padded to 8.
//   All addresses are run-time ones; a module's load bias ties them to the file.

#include <cstdint>

namespace optrace::recording {

constexpr char kMagic[8] = {'O', 'P', 'T', 'R', 'A', 'W', '\0', '\0'};
constexpr std::uint32_t kVersion = 1;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t reserved;
  std::uint64_t start_ticks;  // Time-stamp counter and CLOCK_MONOTONIC nanoseconds, read together,
  std::uint64_t start_nanoseconds;  // when recording started
  std::uint64_t stop_ticks;         // and when it stopped: their ratio turns ticks into time.
  std::uint64_t stop_nanoseconds;
};

enum class SectionKind : std::uint32_t {
  module = 1,           // Module, then its path (not terminated).
  probes = 2,           // ProbeRange.
  python_function = 3,  // PythonFunction, then name and file (not terminated).
  thread = 4,           // Thread, then InitialFrame[initial_count], then Event[event_count].
  end = 5,              // Empty; a recording without it is truncated.
};

struct SectionHeader {
  SectionKind kind;
  std::uint32_t reserved;
  std::uint64_t size;  // Bytes that follow, without the padding.
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
  std::uint32_t placed;
  std::uint32_t path_size;  // The plan's path follows.
};

// In the order of their ids, from 0.
struct PythonFunction {
  std::uint32_t first_line;
  std::uint32_t name_size;
  std::uint32_t file_size;
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

// `id` below kFirstPythonEvent is a probe's; at and above it, what happened in Python.
constexpr std::uint32_t kFirstPythonEvent = 0xF0000000;
constexpr std::uint32_t kPythonCall = kFirstPythonEvent + 0;
constexpr std::uint32_t kPythonReturn = kFirstPythonEvent + 1;
constexpr std::uint32_t kBuiltinCall = kFirstPythonEvent + 2;
constexpr std::uint32_t kBuiltinReturn = kFirstPythonEvent + 3;

struct Event {
  std::uint32_t id;
  std::uint32_t
      line;  // Python events: python_call the caller's line, builtin_call the current one; else 0.
  std::uint64_t
      stack_pointer;  // At the entry's first instruction; Python events: of the hook's frame.
  std::uint64_t return_address;  // Python events: the id of the Python function.
  std::uint64_t ticks;           // Time-stamp counter.
};

static_assert(sizeof(Header) == 48 && sizeof(SectionHeader) == 16 && sizeof(Event) == 32);

}  // namespace optrace::recording
