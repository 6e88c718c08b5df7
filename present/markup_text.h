#pragma once

#include <string>
#include <string_view>

namespace optrace {

/// Escapes `text` for the text of an HTML or XML element, or for an attribute in double quotes.
/// Unsafe characters such as control characters become visible escapes, as in printable().
std::string markup_text(std::string_view text);

}  // namespace optrace
