#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace optrace {

/// Returns `123`, or `~123` for an approximate line.
std::string line_text(std::uint32_t line, bool exact);

/// Returns `file:123`, `file:~123` for an approximate line, or `file` if the line is unknown (0).
std::string place_text(std::string_view file, std::uint32_t line, bool exact);

}  // namespace optrace
