#pragma once

#include <cstdint>
#include <span>

#include "report/model/report.h"

namespace optrace {

/// Returns true for a frame of an op that can copy values to another device, depending on its
/// arguments.
bool may_copy_to_another_device(const Frame& frame);

/// Counts the calls of the last frame of `stack` that copy values between devices implicitly: an op
/// that copies between tensors of two devices or reads a value from a tensor that is not on the
/// CPU, and a copy between host and device outside of such ops.
///
/// A copy is explicit if the innermost frame of the program's own Python code calls a function that
/// is named for it: Tensor.to, Module.cuda, Tensor.item, torch.tensor, Module.load_state_dict; in
/// compiled code, if the graph calls an op that copies.
std::uint64_t implicit_copies(std::span<const Frame* const> stack);

}  // namespace optrace
