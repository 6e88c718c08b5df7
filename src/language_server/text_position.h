#pragma once

#include <cstddef>
#include <string_view>

namespace optrace {

// Positions in the Language Server Protocol are UTF-16 code units, unless client and server agree
// on bytes. A line that is not valid UTF-8 is treated as if each wrong byte were a character.

/// Returns the number of bytes before the UTF-16 code unit `units` of a line; its size if the line
/// is shorter.
std::size_t bytes_before(std::string_view line, std::size_t units);

/// Returns the number of UTF-16 code units in the first `bytes` bytes of a line.
std::size_t units_before(std::string_view line, std::size_t bytes);

}  // namespace optrace
