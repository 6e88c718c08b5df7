#pragma once

#include <cstddef>
#include <cstdint>

#include "present/file_links.h"
#include "present/terminal_text.h"

namespace optrace {

/// The value of --colour.
enum class ColourChoice : std::uint8_t {
  automatic,  ///< Colours on a terminal, unless the environment asks for none.
  always,
  never,
};

/// The user's options for output on a terminal.
struct TerminalOptions {
  ColourChoice colour = ColourChoice::automatic;
  HyperlinkFormat links{"default"};  ///< The value of --hyperlink-format.
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

/// Returns the style of text for a target. `find` finds the files that links lead to.
TerminalStyle style_for(const TerminalOptions& options, const OutputTarget& target,
                        FileLinks::Find find = {});

}  // namespace optrace
