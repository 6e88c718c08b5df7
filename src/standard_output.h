#pragma once

#include <string_view>

namespace optrace {

// All that optrace writes to a terminal goes through here, but for lines that show how far it is.
// None of it can drive the terminal or a CI runner, whatever names and paths are in it
// (platform/printable_text.h).

/// Writes all of `text`. A reader that has left (`optrace conv2d | head -1`) has what it wanted: no
/// error, but false is returned: nobody will read what follows. Throws Error(failed) when standard
/// output is closed or its disk is full.
bool write_standard_output(std::string_view text);

/// The same for standard error.
bool write_standard_error(std::string_view text);

/// The same for standard output, with commands to a CI runner in it. What is foreign in `text` must
/// have been made harmless.
bool write_commands(std::string_view text);

/// `optrace: what` on standard error, and the remedy on the next line if there is one. No exception
/// where nothing can be written.
void write_message(std::string_view what, std::string_view remedy = {});

/// Throws Error(usage) when standard output is closed, before work is done whose result it takes.
void require_standard_output();

}  // namespace optrace
