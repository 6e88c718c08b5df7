#pragma once

namespace optrace_ops {

// torch.utils.swap_tensors refuses tensors that have weak references, and the log of tensors
// holds some. They are dropped before a swap.

/// Finds PyTorch's function. Call with the GIL held.
void find_swap_function();

/// From now on, tensor_log::drop_tensors() is called before each swap. Without effect if the
/// function was not found.
void watch_swaps();

/// Stops that.
void leave_swaps();

}  // namespace optrace_ops
