#pragma once

#include <string>
#include <vector>

#include "platform/text/source_tokens.h"
#include "present/terminal_text.h"

namespace optrace {

/// Returns source code with the colours of a terminal for keywords, strings and comments, line by
/// line, so that each line can be printed alone. The text is made printable. Without colour, it is
/// otherwise unchanged.
std::vector<std::string> highlighted(const std::vector<std::string>& lines, SourceLanguage language,
                                     const TerminalStyle& style);

}  // namespace optrace
