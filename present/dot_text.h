#pragma once

#include <string>
#include <string_view>

namespace optrace {

/// Escapes `text` for a string of DOT in double quotes, in which `\` begins an escape.
std::string dot_text(std::string_view text);

}  // namespace optrace
