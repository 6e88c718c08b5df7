#pragma once

// The op-record agent's C interface. It is shipped as source and built for the torch at hand
// (tracer/runtime_build/op_agent.h): its callbacks use torch's own types, whose layout no two
// versions share. The in-process agent (tracer/in_process/agent/) knows nothing of torch and is
// reached through pointers only, so neither links the other.
//
// The functions return 0, else -errno. They may be called from any thread, but not from two at
// once, and need no GIL. They throw nothing.

#include <cstdint>

#include "tracer/in_process/agent/interface/agent.h"

#define OPTRACE_OPS_EXPORT __attribute__((visibility("default")))

extern "C" {

/// The in-process agent's functions, as tracer/in_process/agent/interface/agent.h has them.
struct optrace_op_functions {
  int (*note)(std::uint32_t kind, std::uint32_t record, std::uint64_t number, std::uint64_t thread);
  std::uint32_t (*new_record)(void);
  int (*keep_record)(std::uint32_t id, const char* text, std::uint64_t size);
  std::uint32_t (*pause_thread)(void);
  void (*resume_thread)(std::uint32_t paused);
  int (*start)(void);
  int (*stop)(void);
  int (*redirect)(const void* inside, const struct optrace_agent_redirection* redirections,
                  std::uint32_t count);
  int (*restore)(const struct optrace_agent_redirection* redirections, std::uint32_t count);
};

/// Which functions to use, before any of the others. The struct is copied.
OPTRACE_OPS_EXPORT int optrace_ops_use(const struct optrace_op_functions* functions);

/// From now on, ops are recorded, and the calls that they make of oneDNN, BLAS and LAPACK: into the
/// recording that runs.
/// -EALREADY when it was on; -EINVAL before optrace_ops_use; -ENOMEM.
OPTRACE_OPS_EXPORT int optrace_ops_enable(void);

/// Ops that are running end unseen. -EALREADY when it was off.
OPTRACE_OPS_EXPORT int optrace_ops_disable(void);

/// Starts the agent's recording and enables, in one call, so that nothing of this is recorded; or
/// what of the two failed gave, and then neither is on.
OPTRACE_OPS_EXPORT int optrace_ops_start(void);

/// Disables, and stops the agent's recording. What stopping gave.
OPTRACE_OPS_EXPORT int optrace_ops_stop(void);

}  // extern "C"
