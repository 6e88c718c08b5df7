#pragma once

#include <string>
#include <string_view>

#include "report/model/report.h"

namespace optrace {

/// Returns true for an enumeration that describes a tensor, such as `c10::ScalarType`, or an
/// optional of one. No function that returns one chooses what is called next.
bool describes_tensor(std::string_view type);

/// Returns why the parent of an op's call came to call it: the last decision before it in the
/// parent that is an enumeration, with its line, and the decisions below that one.
///
///     because _select_conv_backend (Convolution.cpp:1202) returned ConvBackend::Mkldnn:
///     use_cudnn false, use_mkldnn true
///
/// Empty for other frames, for ops after the first one that follows the decision, and without a
/// recorded decision. `parent` may be null.
std::string decision_note(const Frame& frame, const Frame* parent);

}  // namespace optrace
