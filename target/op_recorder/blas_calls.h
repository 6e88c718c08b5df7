#pragma once

#include "target/op_recorder/op_records.h"

namespace optrace_ops {

/// Redirects libtorch_cpu's calls of BLAS and LAPACK, and restores them.
void watch_blas_calls(const optrace_op_functions& agent, const void* inside_torch);
void leave_blas_calls(const optrace_op_functions& agent);

}  // namespace optrace_ops
