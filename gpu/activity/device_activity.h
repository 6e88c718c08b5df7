#pragma once

// Recording of a real device's activity through CUPTI: kernels, copies and fills, their durations,
// and the calls that requested them. Shipped as source and built for the installed PyTorch with the
// headers of its nvidia-cuda-cupti wheel (gpu/build/activity_agent.h). libcupti itself
// is the process's own, opened at the first use. The in-process agent (target/agent/) is
// called through pointers only.
//
// CUPTI allows one subscriber. If another one exists (torch.profiler, Nsight Systems), or
// subscribes later through an import of a loaded library, no device activity is recorded. The
// reason for any missing activity is recorded as a record of kind "activity_missing"
// (docs/trace-format.md).
//
// The functions return 0 or -errno. They may be called from any thread, but not from two at once,
// and don't need the GIL. They don't throw.

#include <cstdint>

#define OPTRACE_ACTIVITY_EXPORT __attribute__((visibility("default")))

struct optrace_agent_redirection;

extern "C" {

/// The in-process agent's functions, as declared in target/interface/agent.h.
/// `start` and `stop` may be the op-record agent's functions, which do more.
struct optrace_activity_functions {
  int (*note)(std::uint32_t kind, std::uint32_t record, std::uint64_t number, std::uint64_t thread);
  std::uint32_t (*new_record)(void);
  int (*keep_record)(std::uint32_t id, const char* text, std::uint64_t size);
  std::uint32_t (*recording)(void);
  std::uint32_t (*pause_thread)(void);
  void (*resume_thread)(std::uint32_t paused);
  int (*redirect)(const void* inside, const struct optrace_agent_redirection* redirections,
                  std::uint32_t count);
  int (*restore)(const struct optrace_agent_redirection* redirections, std::uint32_t count);
  int (*start)(void);
  int (*stop)(void);
};

/// Sets the functions to use. Must be called first. The struct is copied. May return -EINVAL.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_use(
    const struct optrace_activity_functions* functions);

/// Starts recording device activity into the current or the next recording. To be called once CUDA
/// is in use: a process that never uses CUDA does not need CUPTI, and a process that forks before
/// using CUDA must leave it unchanged for the child. Does nothing if already on.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin(void);

/// Same as optrace_activity_begin(), but only if a recording is running. A program may call it
/// whenever CUDA begins to be used.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin_if_recording(void);

/// Calls optrace_activity_begin(), then `start`.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_start(void);

/// Waits up to two seconds for the devices, records their activity, releases CUPTI, and calls
/// `stop`. Returns the result of `stop`.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_stop(void);

}  // extern "C"
