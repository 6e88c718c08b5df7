#pragma once

// C interface of the in-process agent, liboptrace_agent.so. A Python program calls it through
// ctypes, a debugger through ptrace. The agent reads probe plans (plan_format.h), patches functions
// and records which threads enter them, into memory shared with a reader (recording_format.h).
//
// Every function returns 0 or a count on success, otherwise -errno; an error changes nothing unless
// stated otherwise. Unless stated otherwise, the functions may be called from any thread, but not
// from two threads at once: the second call returns -EBUSY. No function throws or allocates from
// the C library's heap, except that Python may allocate when the callback of optrace_agent_python
// asks it for a name.

#include <cstdint>

#define OPTRACE_AGENT_EXPORT __attribute__((visibility("default")))

extern "C" {

/// Outcome for the probes of all plans that are currently placed.
struct optrace_agent_counters {
  std::uint64_t jumps;         ///< Placed as 5-byte jumps.
  std::uint64_t traps;         ///< Placed as int3.
  std::uint64_t bytes_differ;  ///< Skipped: the bytes at the entry differ from the plan.
  std::uint64_t no_room;       ///< Skipped: no memory for a slot in reach of the module.
  std::uint64_t outside_text;  ///< Skipped: not in an executable segment of the module.
  std::uint64_t overlapping;   ///< Skipped: the patch would reach into the next probe.
  /// Probes and redirected imports that the last remove left in place, because other code had
  /// patched over them.
  std::uint64_t left_behind;
  std::uint64_t lost;  ///< Events of this or the last recording for which there was no room.
};

/// Adds the probes of one plan file to the placed ones. Returns the number of probes placed; the
/// counters report the others. If `use_jumps` is not zero, probes whose plan entry allows it become
/// jumps. 1: immediately; use this only while no other thread can be inside the functions' first
/// bytes (at start-up). 2: int3 first, then jumps once every other thread has been seen in a system
/// call; if one is not seen there within a tenth of a second, the probes stay int3. int3 may be
/// placed at any time, but a thread that blocks SIGTRAP must not reach one, because the kernel then
/// kills the process.
///   -EBADMSG          the file is not a plan, or is corrupt
///   -EPROTONOSUPPORT  the plan has another version
///   -ENXIO            no module with the plan's build-id is loaded
///   -EEXIST           the plan is already placed
///   -EACCES           the system does not allow text to be made writable (SELinux's execmod)
///   -EPERM            int3, and a thread blocks SIGTRAP for two seconds or longer
///   -ENOMEM, or an error of open or read
OPTRACE_AGENT_EXPORT int optrace_agent_place(const char* plan_path, int use_jumps);

/// Same as optrace_agent_place(), but reads the plan's content from `file`. The recording still
/// contains `plan_path`.
OPTRACE_AGENT_EXPORT int optrace_agent_place_from(const char* file, const char* plan_path,
                                                  int use_jumps);

/// From the next start on, events are recorded into this file (for example an empty memfd), which a
/// reader maps and empties while the program runs; see RegionHeader in recording_format.h. The
/// agent sets the file's size to `bytes` and maps it; `fd` is not needed afterwards. A thread that
/// finds no free chunk waits for the reader for up to 30 seconds, or less if the reader's heartbeat
/// does not change or its process has ended; its events are then lost and counted. A negative `fd`
/// only drops the memory shared before. In a forked child that records nothing yet, this drops the
/// parent's region.
///   -EBUSY while recording; -EINVAL for fewer than 1 MiB; or an error of ftruncate or mmap
OPTRACE_AGENT_EXPORT int optrace_agent_share(int fd, std::uint64_t bytes);

/// Records an event of the calling thread. `kind` is one of kOpBegin to kNodeEnd, or kCallRecord
/// and later ones. The other arguments are stored in `line`, `stack_pointer` and `return_address`,
/// in this order, with the meanings given in recording_format.h. Returns 0, or -ENODATA when not
/// recording. Called by the op-record agent in the middle of an op: takes no lock and as little
/// time as a probe, and any number of threads may call it at once.
OPTRACE_AGENT_EXPORT int optrace_agent_note(std::uint32_t kind, std::uint32_t record,
                                            std::uint64_t number, std::uint64_t thread);

/// Returns a new record id, unique in this process and at least 1.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_new_record(void);

/// Stores an op record's JSON text for all recordings until optrace_agent_remove. `id` is 0 or was
/// returned by optrace_agent_new_record. Returns 0 or -ENOSPC. Any number of threads may call it at
/// once.
OPTRACE_AGENT_EXPORT int optrace_agent_keep_record(std::uint32_t id, const char* text,
                                                   std::uint64_t size);

/// Returns the number of the current recording, or 0. When it changes, data cached during an
/// earlier recording is out of date.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_recording(void);

/// Between these two calls, probes hit by the calling thread are not recorded; the op-record agent
/// uses this for its own calls. The first function returns the argument for the second. Calls may
/// be nested.
OPTRACE_AGENT_EXPORT std::uint32_t optrace_agent_pause_thread(void);
OPTRACE_AGENT_EXPORT void optrace_agent_resume_thread(std::uint32_t paused);

/// Carries out a pending request of the shared region's reader (stop, place a plan). The Python
/// hook calls this; a program without that hook must call it. Returns 0 or the result of the
/// request.
OPTRACE_AGENT_EXPORT int optrace_agent_serve(void);

/// Starts recording on all threads, after storing the calling thread's stack. Returns -EALREADY
/// when recording, -ENODATA unless memory is shared, or -ENOMEM.
OPTRACE_AGENT_EXPORT int optrace_agent_start(void);

/// Stops recording. Returns -EALREADY when not recording.
OPTRACE_AGENT_EXPORT int optrace_agent_stop(void);

/// Claims this process for the caller. Returns -EBUSY if it is already claimed, is recording or has
/// probes. From now on, a forked child removes the probes from itself and closes `fd`.
OPTRACE_AGENT_EXPORT int optrace_agent_enter(int fd);

/// Releases the process: stops recording and Python events, removes the probes and frees all that
/// can be freed, including the SIGTRAP handler, once every other thread has been seen in a system
/// call. The caller does not need the GIL; as its last step the function waits for it. Returns 0 or
/// the result of optrace_agent_remove.
OPTRACE_AGENT_EXPORT int optrace_agent_leave(void);

/// Calls `start` (optrace_agent_start, or a function that starts more along with it) on Python's
/// main thread when its interpreter can next be interrupted. Before that call, it turns on Python
/// events there; after it, it records the live Python functions. Returns 1, or 0 if Python events
/// can't be recorded. Returns -ETIMEDOUT if the call did not begin within `milliseconds`; it is
/// then never made. Must not be called from the main thread or with the GIL held.
OPTRACE_AGENT_EXPORT int optrace_agent_start_on_main_thread(int (*start)(void),
                                                            std::uint64_t milliseconds);

/// Turns Python events of all threads on (not zero) or off. A profile function of the program stays
/// active and gets its events. The caller does not need the GIL. Returns 0; -ENOSYS if the process
/// has no usable Python; -ENOTSUP for a free-threaded one; -EBUSY if another profile function is
/// set that can't be kept active (it is left alone).
OPTRACE_AGENT_EXPORT int optrace_agent_python(int on);

/// Checks that each thread still has its Python events and turns them on again where they stopped.
/// The region reports the number of such threads (RegionHeader::python_missing). To be called
/// before the recording is stopped; turning Python events off does so itself. The caller does not
/// need the GIL. Returns 0 or -EBUSY.
OPTRACE_AGENT_EXPORT int optrace_agent_python_missing(void);

/// Records the Python functions that are live on the calling thread as call events, outermost
/// first, except those that run inside an import and those of the tracer. The stack pointer of each
/// event is 0, except that of the running function. The caller does not need the GIL. Returns 0,
/// -ENODATA when not recording, or -ENOSYS.
OPTRACE_AGENT_EXPORT int optrace_agent_python_frames(void);

/// Removes all probes and restores redirected imports, so that the text is unmodified again.
/// Restores the SIGTRAP handler if no other thread exists that may have just run into a trap.
/// Memory that a thread may still be executing is kept for later use. Returns -EACCES as
/// optrace_agent_place() does; -EBUSY if other code has patched over probes: those are left in
/// place (counter left_behind), and so is the handler.
OPTRACE_AGENT_EXPORT int optrace_agent_remove(void);

/// Turns the recording of callers without a probe (kCaller) on or off. It is on by default; 0 turns
/// it off, so that only function entries are recorded. Returns -EBUSY while recording.
OPTRACE_AGENT_EXPORT int optrace_agent_callers(int on);

/// With `on`, the call of every Python function and builtin is recorded. By default, and with 0, it
/// is recorded once something inside it is (kPythonCall). Returns -EBUSY while recording.
OPTRACE_AGENT_EXPORT int optrace_agent_every_python_call(int on);

/// From the next placed plan on, each probe that records what calls have returned
/// (plan::ProbeKind::returned) records at most `values` of them, and again for up to three more
/// addresses of the return slot; an int3 is removed then. 0, the default: all. Returns -EBUSY while
/// recording.
OPTRACE_AGENT_EXPORT int optrace_agent_return_limit(std::uint32_t values);

OPTRACE_AGENT_EXPORT int optrace_agent_read_counters(struct optrace_agent_counters* counters);

/// An imported function and its replacement.
struct optrace_agent_redirection {
  const char* symbol;  ///< Its name, without a version.
  void* replacement;   ///< A function of the same type; its module must stay loaded.
  void** original;     ///< Receives the original function before the replacement can be called.
};

/// Redirects imports: every entry of a module's import tables that refers to one of `count` symbols
/// (relocations JUMP_SLOT, GLOB_DAT and 64) is replaced atomically, so threads may be calling
/// through it. Calls within a module that don't go through these tables are not affected. Applies
/// to the module that contains the address `inside`; if it is null, to all loaded modules except
/// this agent and those that contain a replacement. Entries that are not bound yet are included.
/// Among bound ones, an entry that refers to another function than the first one found is left
/// alone. Modules loaded later need another call with the same replacements. Returns the number of
/// entries that are newly redirected.
///   -EEXIST  an entry is already redirected to another replacement
///   -ENXIO   `inside` is in no loaded module
///   -EINVAL  nothing to redirect, or an argument is null; -ENOSPC, -ENOMEM, or an error of
///   mprotect
OPTRACE_AGENT_EXPORT int optrace_agent_redirect(
    const void* inside, const struct optrace_agent_redirection* redirections, std::uint32_t count);

/// Redirects the imports of a module that was loaded after optrace_agent_redirect had been called
/// with the same arguments. Does nothing if all of its entries have been restored since.
OPTRACE_AGENT_EXPORT int optrace_agent_redirect_loaded(
    const void* inside, const struct optrace_agent_redirection* redirections, std::uint32_t count);

/// Restores the entries redirected to these replacements, or all entries if null;
/// optrace_agent_remove does the latter. A thread may still be executing a replacement afterwards,
/// and the originals stay valid. Returns the number of entries that other code has changed since
/// the start of the process, which are left alone (counter left_behind), or an error of mprotect.
OPTRACE_AGENT_EXPORT int optrace_agent_restore(const struct optrace_agent_redirection* redirections,
                                               std::uint32_t count);

}  // extern "C"
