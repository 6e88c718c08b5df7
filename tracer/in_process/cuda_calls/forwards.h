#pragma once

// Calls of real CUDA libraries, recorded on their way: torch's imports of a library's functions are
// led to functions that record the arguments and go on (optrace_agent_redirect). Shipped as source
// and, with what tracer/device_generator/ generates, built for the torch at hand
// (tracer/runtime_build/cuda_calls_agent.h).

#include <cstddef>
#include <cstdint>

#include "tracer/in_process/agent/interface/agent.h"

namespace optrace::cuda_calls {

/// What is recorded of one library.
struct Forwards {
  const optrace_agent_redirection* first;
  std::size_t count;
};

/// Before optrace_cuda_calls_start, by each library's own file. Always true.
bool add(Forwards forwards);

}  // namespace optrace::cuda_calls

extern "C" {

struct optrace_device_functions;

/// From now on, until the agent puts back what it redirected, calls out of all modules but CUDA's
/// own are recorded through `functions` (tracer/emulated_device/device/device.h) while the agent
/// records. `redirect` is optrace_agent_redirect. How many entries of import tables were changed,
/// or what that gave.
OPTRACE_AGENT_EXPORT int optrace_cuda_calls_start(
    const struct optrace_device_functions* functions,
    int (*redirect)(const void* inside, const struct optrace_agent_redirection* redirections,
                    std::uint32_t count));

}  // extern "C"
