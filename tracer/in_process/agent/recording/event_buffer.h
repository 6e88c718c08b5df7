#pragma once

#include <cstdint>

#include "tracer/in_process/agent/recording/region.h"

namespace optrace::agent {

// How events get into a region (region.h). A thread takes a chunk, fills it, takes the next. Chunks
// are aligned to their size, so that "full" shows in the low bits of the write position, and begin
// with a header, so that a position inside one never looks full. No thread ever writes into
// another's chunk or thread-local storage, so a thread may end at any time. What is in a chunk is
// told from the events themselves.

constexpr std::uint32_t kUnrecorded = 0xFFFFFFFF;  ///< As a thread's round: see Unrecorded.

/// What a thread knows; read and written by that thread only. Small: a library that is loaded late
/// gets only what is left of the static TLS block.
struct ThreadBuffer {
  std::uint64_t cursor;  ///< Where the next event goes; low 16 bits 0: nowhere yet.
  std::uint32_t round;   ///< The recording that the rest belongs to; 0 at first.
  std::uint32_t first;   ///< As in ChunkHeader, once `chunks` is not 0.
  std::uint32_t chunks;  ///< How many it took, no more than counts.
  std::uint32_t lost;    ///< Events since its last chunk that found no room, in a shared region.
  recording::ChunkHeader* chunk;  ///< Its chunk; null: none, or sealed already.
  // Of Python, once its profile function has run on the thread:
  const std::uint64_t* current_python;  ///< The interpreter's word for the thread state that runs.
  std::uint64_t python_thread;          ///< The thread's own; in that word while it has the GIL.
  std::uint64_t noted_frame;            ///< What the last kPythonPosition of the recording was
  std::uint64_t noted_instruction;      ///< about; 0: there was none.
};

/// How a probe finds the instruction that Python is at. The layouts are the interpreter's own; they
/// are found, and held against what its public functions say, before `text_size` is set.
struct PythonFrames {
  std::uint64_t text_start;  ///< The interpreter's code: only what that calls needs a position.
  std::uint64_t text_size;   ///< 0: frames can't be read (yet).
  std::uint64_t thread_id;   ///< Where a thread state has pthread_self(); 0: no need to compare.
  std::uint64_t frame;       ///< Where it has its innermost frame, or what that is reached through:
  std::uint64_t through;     ///< 0, or one more than where the frame is there.
  std::uint64_t instruction;        ///< Where a frame has its instruction,
  std::uint64_t code;               ///< and its code object (the low bits may be a tag).
  std::uint64_t previous;           ///< And the frame that called.
  std::uint64_t first_instruction;  ///< Where a code object has its instructions; 0: a frame has a
  std::uint32_t unit;               ///< 32-bit offset instead, in units of so many bytes.
};

/// The word that probes look at, in a page of its own that a forked child gets as zeros.
struct Switch {
  std::uint32_t round;  ///< The recording that runs, from 1; 0: none.
};

/// Makes the switch; must come before the first probe. False without memory.
bool make_switch();

/// Counts up to a new recording, which begin_round then starts.
std::uint32_t next_round();

/// Lets probes record into the current region.
void begin_round();

/// The recording that was started last, or 0.
std::uint32_t last_started_round();

/// The recording that runs, or 0.
std::uint32_t running_round();

/// Ends the recording for this process; a probe that is being hit may still finish its event.
void end_round();

/// Copies what a slot of the last recording, which is over, holds. False when that is no event with
/// a time in [start, stop].
bool read_slot(const recording::Event& slot, std::uint64_t start_ticks, std::uint64_t stop_ticks,
               recording::Event& event);

/// From the first to the second, the calling thread records nothing, whatever probes it hits. The
/// second gets what the first returned.
std::uint32_t pause_thread();
void resume_thread(std::uint32_t paused);

class Unrecorded {
 public:
  Unrecorded() : paused_(pause_thread()) {}
  ~Unrecorded() { resume_thread(paused_); }
  Unrecorded(const Unrecorded&) = delete;
  Unrecorded& operator=(const Unrecorded&) = delete;

 private:
  std::uint32_t paused_;
};

/// The calling thread's own.
ThreadBuffer& thread_buffer();

/// What probes read.
PythonFrames& probed_frames();

/// A slot for an event of the calling thread, or null: the recording `round` is over, or no room.
recording::Event* take_slot(std::uint32_t round);

/// Records an event that is not a probe's.
void record_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
                  std::uint64_t stack_pointer, std::uint64_t return_address);

/// Records kPythonPosition for a frame of the calling thread, unless the last one says the same.
void note_python_position(std::uint32_t round, std::uint64_t frame);

inline std::uint64_t ticks() {
  std::uint32_t low = 0;   // NOLINT(misc-const-correctness): asm writes it.
  std::uint32_t high = 0;  // NOLINT(misc-const-correctness)
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace optrace::agent

extern "C" {

/// What a probe's slot calls: see event_buffer.cpp. The second records kArguments too.
void optrace_agent_record();
void optrace_agent_record_arguments();
}
