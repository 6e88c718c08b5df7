#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// Breaks `text` into lines of at most `width` columns, at spaces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width);

}  // namespace optrace
