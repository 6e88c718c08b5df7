#pragma once

#include <cstddef>
#include <vector>

#include "platform/output_sink.h"
#include "report/output/frame_line.h"
#include "report/output/terminal_text.h"

namespace optrace {

/// Columns of the labels at the beginning of every line: a layer's name, or a field's.
inline constexpr std::size_t kLabelColumns = 12;

/// Writes the lines as text, with their parts aligned. `width` as in ReportTextOptions.
void lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style, std::size_t width,
             OutputSink& sink);

}  // namespace optrace
