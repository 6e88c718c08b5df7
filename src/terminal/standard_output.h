#pragma once

#include <string_view>

namespace optrace {

// All terminal output of optrace goes through these functions, except progress
// (present/progress_display.h). They make it harmless to the terminal and to a CI runner, whatever
// names and paths it contains (platform/text/printable_text.h).

/// Writes all of `text`. Returns false if the reader has closed its end (`optrace conv2d | head
/// -1`), which is not an error. Throws Error(usage) if standard output is closed, Error(failed) if
/// the disk is full.
bool write_standard_output(std::string_view text);

/// Same for standard error. Throws Error(failed) if it is closed or its disk is full.
bool write_standard_error(std::string_view text);

/// Same for standard output, for text with commands to a CI runner. Foreign parts of `text` must
/// have been made harmless before.
bool write_commands(std::string_view text);

/// Same for standard output, for the bytes of a format that is not text, which must not go to a
/// terminal.
bool write_bytes(std::string_view bytes);

/// Writes `optrace: what` to standard error, and the remedy, if any, on the next line. Ignores
/// write errors.
void write_message(std::string_view what, std::string_view remedy = {});

/// Throws Error(usage) if standard output is closed. To be called before work that takes long.
void require_standard_output();

}  // namespace optrace
