#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// The words of a command line as a POSIX shell splits them: quotes and backslashes count, nothing
/// is expanded or run. Throws Error(usage) for a quote that is not closed.
std::vector<std::string> split_words(std::string_view command_line);

}  // namespace optrace
