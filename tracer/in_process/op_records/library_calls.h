#pragma once

// What libtorch_cpu asks of the libraries inside of it: oneDNN, BLAS and LAPACK. Their calls are
// seen where they leave PyTorch's own code, by redirecting libtorch_cpu's imports.

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tracer/in_process/op_records/fingerprint.h"
#include "tracer/in_process/op_records/json_text.h"
#include "tracer/in_process/op_records/op_records.h"

namespace optrace_ops {

/// From now on calls are noted. `inside_torch` is an address in libtorch_cpu.
void watch_library_calls(const optrace_op_functions& agent, const void* inside_torch);

/// No more. What oneDNN prints stays redirected until the agent puts all back: a thread that is in
/// a primitive will still print its line.
void leave_library_calls(const optrace_op_functions& agent);

/// As the agent's function of the name, when no other thread is in the agent; -EBUSY if one is for
/// too long.
int redirect(const optrace_op_functions& agent, const void* inside_torch,
             const optrace_agent_redirection* redirections, std::size_t count);

/// Notes a call for whatever function made it, by a record that tells its like from others by the
/// fingerprint. `stack_pointer` is an address that its callees' frames lie below. `write` adds the
/// record's keys and values. Does nothing while nothing is recorded. Throws nothing.
void note_library_call(const Fingerprint& fingerprint, std::uint64_t stack_pointer,
                       const std::function<void(JsonText&)>& write);

}  // namespace optrace_ops
