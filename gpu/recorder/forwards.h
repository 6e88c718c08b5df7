#pragma once

// Recording of calls of the real CUDA libraries. PyTorch's imports of a library's functions are
// redirected (optrace_agent_redirect) to functions that record the arguments and call the original.
// Shipped as source and built, together with the files that gpu/generator/ generates, for
// the installed PyTorch (gpu/build/cuda_calls_agent.h).

#include <cstddef>

#include "target/interface/recorder.h"

namespace optrace::cuda_calls {

/// The redirections for one library.
struct Forwards {
  const optrace_agent_redirection* first;
  std::size_t count;
};

/// A redirection of calls of `symbol` to `replacement`, which calls the original function.
template <typename Function>
optrace_agent_redirection redirection(const char* symbol, Function replacement,
                                      Function* original) {
  return {symbol, reinterpret_cast<void*>(replacement), reinterpret_cast<void**>(original)};
}

/// Adds a library's redirections. Called by each library's own file before
/// optrace_cuda_calls_start. Always returns true.
bool add(Forwards forwards);

}  // namespace optrace::cuda_calls

extern "C" {

/// From now on, until the agent restores what it redirected, calls from all modules except CUDA's
/// own are recorded through the agent's functions while the agent records; also those from
/// libraries that PyTorch loads later, such as libtorch_cuda_linalg.so. Returns the number of
/// import table entries changed, or the error of `redirect`.
OPTRACE_AGENT_EXPORT int optrace_cuda_calls_start(
    const struct optrace_recorder_functions* functions);

}  // extern "C"
