#pragma once

#include <cstdint>
#include <span>

#include "report/model/report.h"

namespace optrace {

/// Whether the frame is the dispatcher's, where an op is called anew.
bool is_op_call(const Frame& frame);

/// Whether the frame is of an op that takes values from one device to another, depending on its
/// arguments.
bool may_copy_to_another_device(const Frame& frame);

/// How many calls of the last frame of a way take values from one device to another although the
/// program did not say so: an op that copies between tensors of two devices, or reads a value out
/// of one that is not on the CPU, and what is copied between host and device outside of both.
///
/// The program says so where its own Python (the innermost frame of it) calls something that is
/// named for it: Tensor.to, Module.cuda, Tensor.item, torch.tensor, Module.load_state_dict.
std::uint64_t implicit_copies(std::span<const Frame* const> way);

}  // namespace optrace
