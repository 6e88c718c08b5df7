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
  std::uint64_t left_behind;   ///< Not taken out by the last remove: somebody patched over ours,
                               ///< redirected imports included.
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
///   -EPERM            int3, and a thread blocks SIGTRAP for two seconds or longer
///   -ENOMEM, or what open and read gave
OPTRACE_AGENT_EXPORT int optrace_agent_place(const char* plan_path, int use_jumps);

/// The same, with the plan's content read from `file`: the recording says `plan_path` all the same.
OPTRACE_AGENT_EXPORT int optrace_agent_place_from(const char* file, const char* plan_path,
                                                  int use_jumps);

/// From the next start on, what is recorded goes into this file (a memfd, say, empty so far), which
/// a reader maps and empties while the program runs: RegionHeader in recording_format.h. The agent
/// makes it `bytes` long, maps it, and does not need `fd` afterwards. A thread for which no chunk
/// is free waits for the reader, for two seconds at most, and never for one whose heartbeat stands
/// still; then its events are lost, and counted. A negative `fd` goes back to memory of the agent's
/// own. In a forked child that records nothing yet, this drops the parent's region.
///   -EBUSY while recording; -EINVAL for fewer than 1 MiB; or what ftruncate and mmap gave
OPTRACE_AGENT_EXPORT int optrace_agent_share(int fd, std::uint64_t bytes);

/// Adds an event of the calling thread: `kind` is one from kOpBegin to kNodeEnd, or from
/// kCallRecord on, the rest as said there (recording_format.h): `line`, `stack_pointer` and
/// `return_address` in this order. 0, or -ENODATA when not recording. For the op-record agent, in
/// the middle of an op: takes no lock, as little time as a probe, and may be
/// called by any number of threads at once.
OPTRACE_AGENT_EXPORT int optrace_agent_note(std::uint32_t kind, std::uint32_t record,
                                            std::uint64_t number, std::uint64_t thread);

/// An id for a record that is to be kept, no two alike in this process, from 1 on.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_new_record(void);

/// Keeps an op record's JSON text for all recordings until optrace_agent_remove; `id` is 0 or what
/// optrace_agent_new_record gave. 0, or -ENOSPC. May be called by any number of threads at once.
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

/// Takes this process for the caller's own: -EBUSY when somebody has it, records or has probes in
/// it. From now on, a child that is forked takes the probes out of itself, and closes `fd`.
OPTRACE_AGENT_EXPORT int optrace_agent_enter(int fd);

/// Ends that: stops recording and Python events, takes the probes out and gives back what can be,
/// the handler of SIGTRAP too, once every other thread has been seen in a system call. The caller
/// needs no GIL, but waits for it, last of all. 0, or what optrace_agent_remove gave.
OPTRACE_AGENT_EXPORT int optrace_agent_leave(void);

/// Calls `start` (optrace_agent_start, or what starts more along with it) on Python's main thread
/// when its interpreter can next be interrupted, after setting Python events on there and before
/// recording the functions that are live. 1, or 0 when Python events can't be recorded; -ETIMEDOUT
/// when that did not happen within `milliseconds`: then it never will. Not from the main thread,
/// and without the GIL.
OPTRACE_AGENT_EXPORT int optrace_agent_start_on_main_thread(int (*start)(void),
                                                            std::uint64_t milliseconds);

/// Writes the recording of the last start..stop to `fd` and empties the buffers, also when writing
/// failed. -EBUSY while recording, -ENODATA when there is no recording (a forked child has none),
/// or what write gave.
OPTRACE_AGENT_EXPORT int optrace_agent_write(int fd);

/// Python events of all threads, on (not zero) or off. A profile function of the program's stays
/// and gets its events. The caller needs no GIL. Returns 0, -ENOSYS where the process has no usable
/// Python, -ENOTSUP for a free-threaded one, -EBUSY when somebody else's profile function is set
/// and cannot be kept (it is left alone).
OPTRACE_AGENT_EXPORT int optrace_agent_python(int on);

/// Looks whether each thread still has its Python events, and has it have them again; the region
/// says how many had not (RegionHeader::python_missing). Turning them off does this first. To be
/// called before the recording is stopped. The caller needs no GIL. 0 or -EBUSY.
OPTRACE_AGENT_EXPORT int optrace_agent_python_missing(void);

/// Records the Python functions that are live on the calling thread as if they were called now, but
/// for what runs inside of an import: events like those of calls, outermost first. All but the
/// function that is running have 0 for the stack pointer. The caller needs no GIL. 0, -ENODATA when
/// not recording, or -ENOSYS.
OPTRACE_AGENT_EXPORT int optrace_agent_python_frames(void);

/// Takes every probe out, puts back redirected imports, and gives SIGTRAP back if no other thread
/// is there that may have run into a trap just before; afterwards the text is what it was. Memory
/// that a thread may still be running in is kept for the next time. -EACCES as for place; -EBUSY
/// when somebody patched over our probes: those are left (counter left_behind), with the handler.
OPTRACE_AGENT_EXPORT int optrace_agent_remove(void);

/// Bounds the memory for events, in bytes, of all threads together; 64 KiB at least, 1 GiB unless
/// told. Only before the first start: -EBUSY afterwards.
OPTRACE_AGENT_EXPORT int optrace_agent_limit(std::uint64_t bytes);

/// Whether callers without a probe are recorded with what they call (kCaller): they are unless this
/// turns it off, with 0, for whoever needs the entries alone. Not while recording: -EBUSY.
OPTRACE_AGENT_EXPORT int optrace_agent_callers(int on);

OPTRACE_AGENT_EXPORT int optrace_agent_read_counters(struct optrace_agent_counters* counters);

/// An imported function, and what is to be called instead of it.
struct optrace_agent_redirection {
  const char* symbol;  ///< Its name, without a version.
  void* replacement;   ///< The same kind of function; its module must stay loaded.
  void** original;     ///< Gets the function itself, before anyone can get to the replacement.
};

/// Leads imports elsewhere: every entry of a module's import tables that refers to one of `count`
/// symbols (relocations JUMP_SLOT, GLOB_DAT and 64) gets the replacement, at once and whole, so
/// threads may be calling through it; calls within a module that don't go through these tables are
/// not seen. Of the module that `inside` points into; with null, of all that are loaded but those
/// that hold a replacement, and this agent. Entries that are not bound yet count too; among those
/// that are, one that leads to another function than the first is left alone. What is loaded later
/// takes another call with the same replacements. Returns how many entries now lead elsewhere that
/// did not before.
///   -EEXIST  an entry is redirected already, to another replacement
///   -ENXIO   `inside` is in no loaded module
///   -EINVAL  nothing to redirect, or something is null; -ENOSPC, -ENOMEM, or what mprotect gave
OPTRACE_AGENT_EXPORT int optrace_agent_redirect(
    const void* inside, const struct optrace_agent_redirection* redirections, std::uint32_t count);

/// Puts back what led to these replacements; with null, all, as optrace_agent_remove does by
/// itself. A thread may still be in a replacement afterwards, and the originals stay good. Returns
/// how many entries somebody else has changed since the start of the process: those are left alone
/// (counter left_behind). Or what mprotect gave.
OPTRACE_AGENT_EXPORT int optrace_agent_restore(const struct optrace_agent_redirection* redirections,
                                               std::uint32_t count);

}  // extern "C"
