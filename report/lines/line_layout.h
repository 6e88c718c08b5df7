#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "platform/files/output_sink.h"
#include "present/terminal_text.h"
#include "report/lines/frame_line.h"

namespace optrace {

/// Returns the SGR code of a layer's colour.
std::string_view layer_colour(Layer layer);

/// Writes the lines as text, with their parts aligned. `width` as in ReportTextOptions.
void lay_out(const std::vector<FrameLine>& lines, const TerminalStyle& style, std::size_t width,
             OutputSink& sink);

}  // namespace optrace
