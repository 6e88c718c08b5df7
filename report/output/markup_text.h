#pragma once

#include <string>
#include <string_view>

namespace optrace {

/// `text` for the text of an element of HTML or XML, or for an attribute in double quotes. What no
/// reader may get, control characters for one, is a visible escape, as printable() has it.
std::string markup_text(std::string_view text);

}  // namespace optrace
