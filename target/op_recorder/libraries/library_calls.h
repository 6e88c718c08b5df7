#pragma once

// Recording of libtorch_cpu's calls of the libraries it contains: oneDNN, BLAS and LAPACK. The
// calls are intercepted where they leave PyTorch's own code, by redirecting libtorch_cpu's imports.

#include <cstdint>
#include <functional>

#include "target/recorder/fingerprint.h"
#include "target/recorder/json_text.h"

namespace optrace_ops {

/// Starts recording calls. `inside_torch` is an address in libtorch_cpu.
void watch_library_calls(const void* inside_torch);

/// Stops recording calls. oneDNN's print functions stay redirected until the agent restores all
/// redirections, because a thread that is in a primitive will still print its line.
void leave_library_calls();

/// Records a call of the function that called the library. Calls with equal fingerprints share a
/// record. The frames of the callees lie below the address `stack_pointer`. `write` adds the
/// record's keys and values. Does nothing while nothing is recorded. Does not throw.
void record_library_call(const Fingerprint& fingerprint, std::uint64_t stack_pointer,
                         const std::function<void(JsonText&)>& write);

}  // namespace optrace_ops
