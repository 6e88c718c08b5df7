#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "platform/printable_text.h"

namespace optrace {

/// The columns that printable UTF-8 text takes, one for each character.
std::size_t columns(std::string_view text);

/// How text may be marked on the output at hand.
struct TerminalStyle {
  bool colour = false;
  bool links = false;  ///< OSC 8 hyperlinks.

  /// `text` in a colour: an SGR code such as "36" or "1;33". Empty: as it is.
  std::string paint(std::string_view text, std::string_view sgr) const;
  /// `text`, linked to `url` if that is one that a terminal may get.
  std::string link(std::string_view text, std::string_view url) const;
};

}  // namespace optrace
