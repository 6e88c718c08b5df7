#pragma once

#include "target/op_recorder/op_records.h"

namespace optrace_ops {

/// Notes in the journal of tensors which of them autograd saves for the backward pass: the
/// constructors of torch::autograd::SavedVariable are called through the libraries' import tables.
void watch_saved_variables(const optrace_op_functions& agent);
void leave_saved_variables(const optrace_op_functions& agent);

}  // namespace optrace_ops
