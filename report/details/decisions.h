#pragma once

#include <span>
#include <string>

#include "lookup/decisions/decision_functions.h"
#include "report/model/frame.h"

namespace optrace {

/// Adds `detail.not_seen` to a frame whose children are complete: those decisions of its function's
/// source that none of them is. The compiler has inlined them, or execution has not come to them.
void add_decisions_not_seen(Frame& frame, std::span<const CalledDecision> decisions);

/// Returns why the parent of an op's call came to call it: the last decision before it in the
/// parent that is an enumeration, with its line, and the decisions below that one.
///
///     because _select_conv_backend (Convolution.cpp:1202) returned ConvBackend::Mkldnn:
///     use_cudnn false, use_mkldnn true; inlined or not reached: is_mkldnn (:1212)
///
/// Empty for other frames, for ops after the first one that follows the decision, and without a
/// recorded decision. `parent` may be null.
std::string decision_note(const Frame& frame, const Frame* parent);

}  // namespace optrace
