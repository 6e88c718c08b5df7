#include "target/op_recorder/libraries/library_calls.h"

#include "target/op_recorder/libraries/blas_calls.h"
#include "target/op_recorder/libraries/onednn_calls.h"

namespace optrace_ops {

void watch_library_calls(const void* inside_torch) {
  watch_blas_calls(inside_torch);
  watch_onednn_calls(inside_torch);
}

void leave_library_calls() {
  leave_onednn_calls();
  leave_blas_calls();
}

}  // namespace optrace_ops
