#pragma once

#include "tracer/in_process/op_records/op_records.h"

namespace optrace_ops {

/// Has oneDNN say what it executes (its verbose mode), and takes the lines out of what libtorch_cpu
/// prints, unless the user has asked for them too.
void watch_onednn_calls(const optrace_op_functions& agent, const void* inside_torch);
void leave_onednn_calls();

}  // namespace optrace_ops
