#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/output/frame_line.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// Columns of the labels at the beginning of every line: a layer's name, or a field's.
inline constexpr std::size_t kLabelColumns = 12;

/// Returns the SGR code of a layer's colour.
std::string_view layer_colour(Layer layer);

/// Returns the lines as text, with their parts aligned. `width` as in ReportTextOptions.
std::string lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style,
                    std::size_t width);

}  // namespace optrace
