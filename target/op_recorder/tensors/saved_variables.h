#pragma once

namespace optrace_ops {

/// Records in the log of tensors which of them autograd saves for the backward pass: the
/// constructors of torch::autograd::SavedVariable are called through the libraries' import tables.
void watch_saved_variables();
void leave_saved_variables();

}  // namespace optrace_ops
