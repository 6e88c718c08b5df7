#pragma once

#include <optional>

#include "report/findings/finding_rules.h"

namespace optrace {

/// Finds a convolution of PyTorch's own, in the forward or the backward pass, where its conditions
/// exclude oneDNN or cuDNN. Where PyTorch takes its own because it is faster, nothing is found: on
/// the CPU, that are all other convolutions of float32.
std::optional<RuleMatch> slow_convolution(const FrameInContext& at);

}  // namespace optrace
