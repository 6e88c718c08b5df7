#pragma once

// What a real device does, through CUPTI: which kernels, copies and fills ran, for how long, and
// which call asked for each. Shipped as source and built for the torch at hand against the headers
// of its nvidia-cuda-cupti wheel (tracer/runtime_build/activity_agent.h). libcupti itself is the
// process's own, opened at the first use; the in-process agent (tracer/in_process/agent/) is
// reached through pointers only.
//
// CUPTI has one subscriber. If somebody else has it (torch.profiler, Nsight Systems), or takes it
// later by an import of a loaded library, optrace does without, and the recording says so. Whatever
// is missing is told as a record of kind "activity_missing" (docs/trace-format.md).
//
// The functions return 0, else -errno. They may be called from any thread, but not from two at
// once, and need no GIL. They throw nothing.

#include <cstdint>

#define OPTRACE_ACTIVITY_EXPORT __attribute__((visibility("default")))

struct optrace_agent_redirection;

extern "C" {

/// The in-process agent's functions, as tracer/in_process/agent/interface/agent.h has them; `start`
/// and `stop` may be those of the op-record agent, which do more.
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

/// Which functions to use, before any of the others. The struct is copied. -EINVAL.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_use(
    const struct optrace_activity_functions* functions);

/// From now on what devices do is recorded, into the recording that runs or the next one. To be
/// called when CUDA is in use already: nothing in a process that never uses it needs CUPTI, and
/// what forks before it does must find CUDA as it was. Nothing happens where it is on.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin(void);

/// As begin, if a recording runs: what a program may call whenever CUDA begins to be used.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_begin_if_recording(void);

/// begin, and then `start`.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_start(void);

/// Waits for the devices, two seconds at most, records what they have done, leaves CUPTI as it was
/// found, and then stops: what `stop` gave.
OPTRACE_ACTIVITY_EXPORT int optrace_activity_stop(void);

}  // extern "C"
