#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// Splits a command line into words as a POSIX shell does: it interprets quotes and backslashes,
/// but expands and runs nothing. Throws Error(usage) for an unclosed quote.
std::vector<std::string> split_words(std::string_view command_line);

}  // namespace optrace
