#pragma once

// C interface of the op-record agent. It is shipped as source and built for the installed PyTorch
// (target/build/op_agent.h), because its callbacks use PyTorch's own types, whose layout differs
// between versions.
//
// The functions return 0 or -errno. They may be called from any thread, but not from two at once,
// and don't need the GIL. They don't throw.

#include <cstdint>

#include "target/interface/recorder.h"

#define OPTRACE_OPS_EXPORT __attribute__((visibility("default")))

extern "C" {

/// Sets the agent's functions, which are copied. Must be called first. May return -EINVAL.
OPTRACE_OPS_EXPORT int optrace_ops_use(const struct optrace_recorder_functions* functions);

/// Makes the recordings that start from now on keep the log of tensors (tensor_log.h). Call
/// it with the GIL held. `tensor_type` is the Python type torch.Tensor, and `sample` a tensor of
/// that type; `not_own` lists the folders, separated by line feeds, whose Python files are not the
/// program's own. `most` is the largest size of the log in bytes.
OPTRACE_OPS_EXPORT int optrace_ops_keep_tensors(void* tensor_type, void* sample,
                                                const char* not_own, std::uint64_t most);

/// Starts recording ops, and their calls of oneDNN, BLAS and LAPACK, into the current recording.
/// Returns -EALREADY when already enabled, -EINVAL before optrace_ops_use, or -ENOMEM.
OPTRACE_OPS_EXPORT int optrace_ops_enable(void);

/// Stops recording ops. The end of ops that are running is not recorded. Returns -EALREADY when not
/// enabled.
OPTRACE_OPS_EXPORT int optrace_ops_disable(void);

/// Starts the agent's recording and enables op records in one call, so that nothing of this is
/// recorded. If one of the two fails, returns its error, and neither is on.
OPTRACE_OPS_EXPORT int optrace_ops_start(void);

/// Disables op records and stops the agent's recording. Returns the result of stopping.
OPTRACE_OPS_EXPORT int optrace_ops_stop(void);

}  // extern "C"
