#pragma once

#include <cstddef>
#include <cstdint>

#include "report/output/terminal_text.h"

namespace optrace {

/// The value of --colour.
enum class ColourChoice : std::uint8_t {
  automatic,  ///< Colours on a terminal, unless the environment asks for none.
  always,
  never,
};

/// Properties of the file or terminal that output is written to.
struct OutputTarget {
  bool terminal = false;
  std::size_t width = 0;   ///< In columns; 0: no limit.
  bool no_colour = false;  ///< NO_COLOR is set (no-color.org), or TERM is `dumb`.
};

/// Describes standard output, taking environment variables into account. COLUMNS takes precedence
/// over the terminal's own width.
OutputTarget standard_output();

/// Same for standard error.
OutputTarget standard_error();

/// Returns the style of text for a target.
TerminalStyle style_for(ColourChoice choice, const OutputTarget& target);

}  // namespace optrace
