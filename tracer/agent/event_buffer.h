#pragma once

#include <cstdint>

#include "tracer/agent/recording_format.h"

namespace optrace::agent {

// Where events go. One region of address space for all threads, cut into chunks of 64 KiB; a thread
// takes a chunk by counting up, fills it, takes the next. Chunks are aligned to their size, so that
// "full" shows in the low bits of the write position, and begin with a header, so that a position
// inside one never looks full. No thread ever writes into another's chunk or thread-local storage,
// so a thread may end at any time. What is in a chunk is told from the events themselves.

constexpr std::uint64_t kChunkSize = 64ULL * 1024;

struct ChunkHeader {
  std::uint32_t round;   ///< The recording that it belongs to.
  std::uint32_t thread;  ///< gettid
  std::uint32_t head;    ///< Index of the thread's first chunk of this recording.
  std::uint32_t next;    ///< Filled in by collect(): the thread's next chunk, or kNoChunk.
  std::uint32_t last;    ///< In a head, by collect(): the thread's last chunk.
  std::uint32_t count;   ///< Filled in by collect(): events, now without gaps.
  std::uint64_t lost;    ///< In a head: the thread's events that found no room.
};
static_assert(sizeof(ChunkHeader) == sizeof(recording::Event));

constexpr std::uint32_t kNoChunk = 0xFFFFFFFF;
constexpr std::uint32_t kUnrecorded = 0xFFFFFFFF;  ///< As a thread's round: see Unrecorded.
constexpr std::uint32_t kEventsPerChunk = kChunkSize / sizeof(recording::Event) - 1;

/// What a thread knows; read and written by that thread only. Small: a library that is loaded late
/// gets only what is left of the static TLS block.
struct ThreadBuffer {
  std::uint64_t cursor;  ///< Where the next event goes; low 16 bits 0: nowhere yet.
  std::uint32_t round;   ///< The recording that `cursor` belongs to; 0 at first.
  std::uint32_t head;    ///< Index of the thread's first chunk in that recording, or kNoChunk.
};

/// The two words that probes look at, in a page of their own that a forked child gets as zeros.
struct Switch {
  std::uint32_t round;  ///< The recording that runs, from 1; 0: none.
};

/// Makes the switch; must come before the first probe. False without memory.
bool make_switch();

/// Bounds the region. False when there is one already.
bool limit_buffers(std::uint64_t bytes);

/// Gets the region if need be and starts a new recording. False without memory.
bool start_round();

/// The recording that was started last, or 0.
std::uint32_t last_started_round();

/// The recording that runs, or 0.
std::uint32_t running_round();

/// Ends the recording for this process; a probe that is being hit may still finish its event.
void stop_round();

/// After a recording: drops the slots whose time is outside [start, stop], closes the gaps and
/// links each thread's chunks.
void collect(std::uint64_t start_ticks, std::uint64_t stop_ticks);

/// Of the last recording, after collect(): its chunks are first_chunk() ... first_chunk() +
/// chunk_count() - 1, in the order in which they were taken.
std::uint32_t chunk_count();
ChunkHeader* chunk(std::uint32_t index);
inline recording::Event* events_of(ChunkHeader* header) {
  return reinterpret_cast<recording::Event*>(header) + 1;
}

/// Events of threads that never got a chunk.
std::uint64_t lost_without_chunk();

/// All lost events of the last recording.
std::uint64_t lost_events();

/// Makes room for the next recording. What was much gives its memory back, but not its addresses.
void empty_buffers();

/// Gives all memory back, but no addresses.
void release_buffers();

/// While one lives, the calling thread records nothing, whatever probes it hits. Not nested.
class Unrecorded {
 public:
  Unrecorded();
  ~Unrecorded();
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  std::uint32_t round_;
};

/// A slot for an event of the calling thread, or null: not recording, or no room.
recording::Event* take_slot();

inline std::uint64_t ticks() {
  std::uint32_t low = 0;   // NOLINT(misc-const-correctness): asm writes it.
  std::uint32_t high = 0;  // NOLINT(misc-const-correctness)
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace optrace::agent

extern "C" {

/// What a probe's slot calls: see event_buffer.cpp.
void optrace_agent_record();
}
