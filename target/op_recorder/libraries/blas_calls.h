#pragma once

namespace optrace_ops {

/// Redirects libtorch_cpu's calls of BLAS and LAPACK, and restores them.
void watch_blas_calls(const void* inside_torch);
void leave_blas_calls();

}  // namespace optrace_ops
