#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "platform/printable_text.h"

namespace optrace {

/// Returns the width of printable UTF-8 text in columns, one for each character.
std::size_t columns(std::string_view text);

/// Returns the text with spaces at its end, so that it is at least `width` columns wide.
std::string padded(std::string_view text, std::size_t width);

/// Text styles that the output supports.
struct TerminalStyle {
  bool colour = false;
  bool links = false;  ///< OSC 8 hyperlinks.

  /// Returns `text` in a colour, given by an SGR code such as "36" or "1;33". Unchanged if `sgr` is
  /// empty.
  std::string paint(std::string_view text, std::string_view sgr) const;
  /// Returns `text`, linked to `url` if it is an https URL without spaces, control or non-ASCII
  /// characters.
  std::string link(std::string_view text, std::string_view url) const;
};

}  // namespace optrace
