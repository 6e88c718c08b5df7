#pragma once

// Recording of a real device's activity through CUPTI: kernels, copies and fills, their durations,
// and the calls that requested them. Shipped as source and built for the installed PyTorch with the
// headers of its nvidia-cuda-cupti wheel (gpu/build/activity_agent.h). libcupti itself is the
// process's own, opened at the first use.
//
// CUPTI allows one subscriber. If another one exists (torch.profiler, Nsight Systems), or
// subscribes later through an import of a loaded library, no device activity is recorded. The
// reason for any missing activity is recorded as a record of kind "activity_missing"
// (docs/trace-format.md).
//
// The functions return 0 or -errno. They may be called from any thread, but not from two at once,
// and don't need the GIL. They don't throw.

#include "target/interface/recorder.h"

#define OPTRACE_ACTIVITY_EXPORT __attribute__((visibility("default")))

extern "C" {

/// Sets the agent's functions, which are copied, and those that start and stop a recording: the
/// agent's own, or those of another recorder, which do more. Must be called first. May return
/// -EINVAL.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_use(const struct optrace_recorder_functions* functions,
                                                 int (*start)(void), int (*stop)(void));

/// Starts recording device activity into the current or the next recording. To be called once CUDA
/// is in use: a process that never uses CUDA does not need CUPTI, and a process that forks before
/// using CUDA must leave it unchanged for the child. Does nothing if already on.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin(void);

/// Same as optrace_activity_begin(), but only if a recording is running. A program may call it
/// whenever CUDA begins to be used.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin_if_recording(void);

/// Calls optrace_activity_begin(), then the function that starts a recording.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_start(void);

/// Waits up to two seconds for the devices, records their activity, releases CUPTI, and calls the
/// function that stops a recording. Returns its result.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_stop(void);

}  // extern "C"
