#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Returns true for a Python frame of the program itself: neither torch's nor an installed
/// package's.
bool is_program_code(const Frame& frame);

/// Returns the line of the program that torch.compile generated the frame's call for; null for
/// other frames. Of several lines that were fused, it is the last.
const Origin* origin_of(const Frame& frame);

/// Returns true for a kernel that torch.compile generated. No op calls it.
bool is_generated_kernel(const Frame& frame);

/// Result of innermost_user_frame() for a path without such a frame.
inline constexpr std::size_t kNoUserFrame = static_cast<std::size_t>(-1);

/// Returns the position in a path, outermost frame first, of the innermost Python frame of the
/// program itself. If there is none, of an installed package other than torch. `above` is the
/// result for the path without its last frame; kNoUserFrame for a root.
std::size_t innermost_user_frame(const std::vector<const Frame*>& path, std::size_t above);

/// Returns the source of a frame of the path, or null if it has none or `at` is after the end.
const FrameSource* source_at(const std::vector<const Frame*>& path, std::size_t at);

/// Returns the line of a frame with a source that calls the next frame of the path. If it is
/// unknown, returns the line of the definition.
std::uint32_t calling_line(const std::vector<const Frame*>& path, std::size_t at);

}  // namespace optrace
