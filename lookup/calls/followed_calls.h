#pragma once

#include <string_view>

namespace optrace {

// The rules by which a search for call paths decides from a callee's symbol or an op's name whether
// to follow a call.

/// Returns false for functions that do no work of their own: checks, containers, tensors' accessors
/// and tensor iterators. Of Tensor's constructors, destructors and operators, only operator[] is
/// followed; other members of Tensor call ops.
bool is_followed(std::string_view symbol);

/// Returns true for ops that create, copy or inspect tensors as a preparation: `empty_like`,
/// `contiguous`, `copy_`.
bool is_housekeeping_op(std::string_view name);

/// Returns true for the kernel of a housekeeping op, called without the dispatcher:
/// `at::native::copy_`.
bool is_housekeeping_function(std::string_view symbol);

/// Returns false for ops that lead nowhere for any op: those that allocate or test tensors.
bool leads_to_work(std::string_view op);

/// Returns the library of a callee: `cuDNN`. Empty if it belongs to none.
std::string_view library_of_callee(std::string_view symbol);

}  // namespace optrace
