#pragma once

#include <string>

#include "report/model/report.h"

namespace optrace {

/// Returns the name that people read, printable: the op of a dispatcher's step, a Python function
/// without its module, which the file shows, or a function without its parameters.
std::string frame_name(const Frame& frame);

/// Same as frame_name(), with the step that tells a dispatcher's frames apart: `aten::add (call)`.
std::string frame_label(const Frame& frame);

/// Returns the place of a frame's definition; empty if its file is unknown.
std::string place_text(const FrameSource& source);

}  // namespace optrace
