#pragma once

namespace optrace_ops {

/// Turns on oneDNN's verbose mode, which reports executed primitives, and removes these lines from
/// libtorch_cpu's output unless the user has requested them.
void watch_onednn_calls(const void* inside_torch);
void leave_onednn_calls();

}  // namespace optrace_ops
