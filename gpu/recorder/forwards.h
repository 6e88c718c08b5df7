#pragma once

// Recording of calls of the real CUDA libraries. PyTorch's imports of a library's functions are
// redirected (optrace_agent_redirect) to functions that record the arguments and call the original.
// Shipped as source and built, together with the files that gpu/generator/ generates, for
// the installed PyTorch (gpu/build/cuda_calls_agent.h).

#include <cstddef>
#include <cstdint>

#include "target/interface/agent.h"

namespace optrace::cuda_calls {

/// Type of optrace_agent_redirect.
using Redirect = int(const void* inside, const optrace_agent_redirection* redirections,
                     std::uint32_t count);

/// The redirections for one library.
struct Forwards {
  const optrace_agent_redirection* first;
  std::size_t count;
};

/// Adds a library's redirections. Called by each library's own file before
/// optrace_cuda_calls_start. Always returns true.
bool add(Forwards forwards);

}  // namespace optrace::cuda_calls

extern "C" {

struct optrace_device_functions;

/// From now on, until the agent restores what it redirected, calls from all modules except CUDA's
/// own are recorded through `functions` (gpu/emulated/device/device.h) while the agent
/// records; also those from libraries that PyTorch loads later, such as libtorch_cuda_linalg.so.
/// `redirect` is optrace_agent_redirect, `redirect_loaded` is optrace_agent_redirect_loaded.
/// Returns the number of import table entries changed, or the error of `redirect`.
OPTRACE_AGENT_EXPORT int optrace_cuda_calls_start(const struct optrace_device_functions* functions,
                                                  optrace::cuda_calls::Redirect* redirect,
                                                  optrace::cuda_calls::Redirect* redirect_loaded);

}  // extern "C"
