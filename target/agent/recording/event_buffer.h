#pragma once

#include <cstdint>

#include "target/agent/recording/region.h"

namespace optrace::agent {

// Writing events into a region (region.h). A thread takes a chunk, fills it, and takes the next
// one. Chunks are aligned to their size, so the low bits of the write position show that a chunk is
// full; they begin with a header, so a position inside a chunk never looks full. No thread writes
// into another thread's chunk or thread-local storage, so a thread may end at any time. The content
// of a chunk is determined from the events themselves.

/// Value of a thread's round while its events are not recorded; see Unrecorded.
constexpr std::uint32_t kUnrecorded = 0xFFFFFFFF;

struct PythonStack;

/// State of one thread, accessed by that thread only. It is small, because a library that is loaded
/// late gets only the rest of the static TLS block.
struct ThreadBuffer {
  std::uint64_t cursor;  ///< Address of the next event; low 16 bits 0: no chunk yet.
  std::uint32_t round;   ///< Number of the recording that the other fields belong to; initially 0.
  std::uint32_t first;   ///< As in ChunkHeader, once `chunks` is not 0.
  std::uint32_t chunks;  ///< Number of chunks taken; only zero or non-zero matters.
  std::uint32_t lost;    ///< Lost events since its last chunk.
  recording::ChunkHeader* chunk;  ///< The thread's chunk; null: none, or already sealed.
  // The following are set once Python's profile function has run on the thread.
  /// Address of the interpreter's pointer to the current thread state.
  const std::uint64_t* current_python;
  /// The thread's own state; *current_python equals it while the thread has the GIL.
  std::uint64_t python_thread;
  std::uint64_t noted_frame;  ///< Frame of the recording's last kPythonPosition; 0: none.
  /// Instruction of the recording's last kPythonPosition; 0: none.
  std::uint64_t noted_instruction;
  PythonStack* python;  ///< Its Python calls (python_calls.h); null: none yet.
};

/// Layouts with which a probe finds the current instruction of Python. They are those of the
/// interpreter's internal structures. They are determined, and compared with the results of the
/// interpreter's public functions, before `usable` is set.
struct PythonFrames {
  bool usable;  ///< False: frames can't be read (yet).
  /// Offset of pthread_self() in a thread state; 0: no need to compare.
  std::uint64_t thread_id;
  /// Offset in a thread state of its innermost frame, or of a pointer through which the frame is
  /// reached.
  std::uint64_t frame;
  /// 0, or one plus the offset of the frame in the structure that `frame` points to.
  std::uint64_t through;
  std::uint64_t instruction;  ///< Offset of the instruction in a frame.
  /// Offset of the code object in a frame; its low bits may be a tag.
  std::uint64_t code;
  std::uint64_t previous;  ///< Offset of the calling frame in a frame.
  /// Offset of the instructions in a code object; 0: `instruction` is a 32-bit index.
  std::uint64_t first_instruction;
  std::uint32_t unit;  ///< Size of one step of that index in bytes.
};

/// The word that probes read. It is in its own page, which is zero in a forked child.
struct Switch {
  std::uint32_t round;  ///< Number of the current recording, at least 1; 0: none.
};

/// Allocates the switch. Must be called before the first probe. Returns false if memory can't be
/// allocated.
bool make_switch();

/// Returns the number of a new recording, which begin_round then starts.
std::uint32_t next_round();

/// Makes probes record into the current region.
void begin_round();

/// Returns the number of the current recording, or 0.
std::uint32_t running_round();

/// Ends the recording in this process. A thread that is in a probe may still finish its event.
void end_round();

/// Between these two calls, the calling thread records nothing. The first function returns the
/// argument for the second.
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

/// Returns the calling thread's buffer.
ThreadBuffer& thread_buffer();

/// Returns the layouts that probes read.
PythonFrames& probed_frames();

/// Returns a slot for an event of the calling thread, or null if the recording `round` is over or
/// there is no room.
recording::Event* take_slot(std::uint32_t round);

/// Records an event other than a probe hit, after the thread's pending Python calls.
void record_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
                  std::uint64_t stack_pointer, std::uint64_t return_address);

/// Same, without pending calls, for an event that happened at `ticks`.
void put_event(std::uint32_t round, std::uint32_t kind, std::uint32_t line,
               std::uint64_t stack_pointer, std::uint64_t return_address, std::uint64_t ticks);

inline std::uint64_t ticks() {
  std::uint32_t low = 0;   // NOLINT(misc-const-correctness): asm writes it.
  std::uint32_t high = 0;  // NOLINT(misc-const-correctness)
  asm volatile("rdtsc" : "=a"(low), "=d"(high));
  return std::uint64_t{high} << 32 | low;
}

}  // namespace optrace::agent

extern "C" {

/// Called by a probe's slot; see event_buffer.cpp. The second one also records kArguments, the
/// third one records kReturnedValue instead of an entry.
void optrace_agent_record();
void optrace_agent_record_arguments();
void optrace_agent_record_return();
}
