#pragma once

// The in-process agent's C interface: what a Python program calls through ctypes, or a debugger
// through ptrace, once liboptrace_agent.so is loaded. The agent reads probe plans (plan_format.h),
// patches functions, records who entered them and hands out a raw recording (recording_format.h).
//
// Every function returns 0 or a count when it did what it says, else -errno and nothing is changed
// unless said otherwise. They may be called from any thread, but, unless said otherwise, not from
// two at once: the second gets -EBUSY. None throws, none allocates from the C library's heap,
// except that Python may when optrace_agent_python's callback asks it for a name.

#include <cstdint>

#define OPTRACE_AGENT_EXPORT __attribute__((visibility("default")))

extern "C" {

/// What became of the probes of all plans that are placed now.
struct optrace_agent_counters {
  std::uint64_t jumps;         ///< Placed as 5-byte jumps.
  std::uint64_t traps;         ///< Placed as int3.
  std::uint64_t bytes_differ;  ///< Skipped: the entry does not hold what the plan says.
  std::uint64_t no_room;       ///< Skipped: no memory for a slot in reach of the module.
  std::uint64_t outside_text;  ///< Skipped: not in an executable segment of the module.
  std::uint64_t overlapping;   ///< Skipped: the patch would reach into the next probe.
  std::uint64_t left_behind;   ///< Not taken out by the last remove: somebody patched over ours.
  std::uint64_t lost;          ///< Events of this or the last recording that found no room.
};

/// Adds the probes of one plan file to those that are placed, and returns how many of them were;
/// the rest is in the counters. Where `use_jumps` is not zero, probes that the plan allows it for
/// become jumps: with 1 at once, only while no other thread can be inside the functions' first
/// bytes (at start-up); with 2 after int3s, once every other thread has been seen in a system call,
/// or not at all if one is not seen there within a tenth of a second. int3 may be placed at any
/// time, but a thread that blocks SIGTRAP must not meet one: the kernel kills the process then.
///   -EBADMSG          the file is no plan, or corrupt
///   -EPROTONOSUPPORT  a plan of another version
///   -ENXIO            no module with the plan's build-id is loaded
///   -EEXIST           this plan is placed already
///   -EACCES           the system does not let text be made writable (SELinux's execmod)
///   -EPERM            int3, and a thread blocks SIGTRAP
///   -ENOMEM, or what open and read gave
OPTRACE_AGENT_EXPORT int optrace_agent_place(const char* plan_path, int use_jumps);

/// From the next start on, what is recorded goes into this file (a memfd, say, empty so far), which
/// a reader maps and empties while the program runs: RegionHeader in recording_format.h. The agent
/// makes it `bytes` long, maps it, and does not need `fd` afterwards. A thread for which no chunk
/// is free waits for the reader, for two seconds at most, and never for one whose heartbeat stands
/// still; then its events are lost, and counted. A negative `fd` goes back to memory of the agent's
/// own. In a forked child that records nothing yet, this drops the parent's region.
///   -EBUSY while recording; -EINVAL for fewer than 1 MiB; or what ftruncate and mmap gave
OPTRACE_AGENT_EXPORT int optrace_agent_share(int fd, std::uint64_t bytes);

/// Adds an event of the calling thread: `kind` is one from kOpBegin to kNodeEnd, or kCallRecord,
/// the rest as said there (recording_format.h). 0, or -ENODATA when not recording. For the
/// op-record agent, in the middle of an op: takes no lock, as little time as a probe, and may be
/// called by any number of threads at once.
OPTRACE_AGENT_EXPORT int optrace_agent_note(std::uint32_t kind, std::uint32_t record,
                                            std::uint64_t number, std::uint64_t thread);

/// An id for a record that is to be kept, no two alike in this process, from 1 on.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_new_record(void);

/// Keeps an op record's JSON text in the recording; `id` is 0 or what optrace_agent_new_record
/// gave. 0, or -ENOSPC. May be called by any number of threads at once.
OPTRACE_AGENT_EXPORT int optrace_agent_keep_record(std::uint32_t id, const char* text,
                                                   std::uint64_t size);

/// The number of the recording that runs, or 0. What somebody remembers of an earlier one is out of
/// date when it has changed.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_recording(void);

/// Between the two, probes that the calling thread hits are not recorded: for what the op-record
/// agent itself calls. Returns what to hand to the second. Nests.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_pause_thread(void);
OPTRACE_AGENT_EXPORT void optrace_agent_resume_thread(std::uint32_t paused);

/// Does what the reader of the shared region wants (stop, place a plan), if anything. Called by the
/// Python hook by itself; for programs without one. 0 or what that gave.
OPTRACE_AGENT_EXPORT int optrace_agent_serve(void);

/// Starts recording on all threads, after taking down the calling thread's stack. What an earlier
/// recording left is dropped. -EALREADY when recording; -ENOMEM without memory for the buffers.
OPTRACE_AGENT_EXPORT int optrace_agent_start(void);

/// Stops recording. -EALREADY when not recording.
OPTRACE_AGENT_EXPORT int optrace_agent_stop(void);

/// Writes the recording of the last start..stop to `fd` and empties the buffers, also when writing
/// failed. -EBUSY while recording, -ENODATA when there is no recording (a forked child has none),
/// or what write gave.
OPTRACE_AGENT_EXPORT int optrace_agent_write(int fd);

/// Python events of the calling thread, on (not zero) or off. The caller needs no GIL. Returns 0,
/// -ENOSYS where the process has no usable Python, -ENOTSUP for a free-threaded one, -EBUSY when
/// somebody else's profile function is set (it is left alone).
OPTRACE_AGENT_EXPORT int optrace_agent_python(int on);

/// Records the Python functions that are live on the calling thread as if they were called now, but
/// for what runs inside of an import: events like those of calls, outermost first, with 0 for the
/// stack pointer. The caller needs no GIL. 0, -ENODATA when not recording, or -ENOSYS.
OPTRACE_AGENT_EXPORT int optrace_agent_python_frames(void);

/// Takes every probe out, and gives SIGTRAP back if no other thread is there that may have run into
/// a trap just before; afterwards the text is what it was. Memory that a thread may still be
/// running in is kept for the next time. -EACCES as for place; -EBUSY when somebody patched over
/// our probes: those are left (counter left_behind), with the handler.
OPTRACE_AGENT_EXPORT int optrace_agent_remove(void);

/// Bounds the memory for events, in bytes, of all threads together; 64 KiB at least, 1 GiB unless
/// told. Only before the first start: -EBUSY afterwards.
OPTRACE_AGENT_EXPORT int optrace_agent_limit(std::uint64_t bytes);

OPTRACE_AGENT_EXPORT int optrace_agent_read_counters(struct optrace_agent_counters* counters);

}  // extern "C"
