#pragma once

#include <string_view>

namespace optrace {

/// Writes all of `text`. A reader that has left (`optrace conv2d | head -1`) has what it wanted: no
/// error, but false is returned: nobody will read what follows. Throws Error(failed) when standard
/// output is closed or its disk is full.
bool write_standard_output(std::string_view text);

/// The same for standard error.
bool write_standard_error(std::string_view text);

/// Throws Error(usage) when standard output is closed, before work is done whose result it takes.
void require_standard_output();

}  // namespace optrace
