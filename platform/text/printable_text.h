#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "platform/exported.h"

namespace optrace {

// Text from a traced process, a file or the command line may control a terminal, hide its content,
// or contain commands for a CI runner that reads the log. Only these functions make it harmless.
// Each is idempotent.
//
// They escape control characters (C0 except the ones named below, DEL and C1), characters that
// change the writing direction or are invisible (zero-width characters, soft hyphens, word joiners,
// fillers, tags), other line separators, noncharacters, and bytes that are not UTF-8, including
// surrogates. Each becomes a visible escape in Python's notation: `\x1b`, `\u202e`, `\U000e0041`,
// `\xff`; a surrogate is `\udc80`.

/// Returns `text` on one line: tabs and line ends are escaped too. So is `##[`, which GitHub's
/// runner takes as a command anywhere.
std::string printable(std::string_view text);

/// Same for the start of `text`, at most `limit` bytes, followed by `...` if there are more.
std::string printable_start(std::string_view text, std::size_t limit);

/// Returns `text` of one or several lines, as in messages: tabs and line feeds stay, and no line is
/// a command for a CI runner. GitHub's runner also takes lines that start with `::`, after any
/// white space.
OPTRACE_EXPORTED std::string printable_lines(std::string_view text);

/// Same as printable_lines(), for a whole output of optrace, whose colours (SGR sequences) and
/// links (OSC 8, to a URL with a scheme) stay.
std::string printable_output(std::string_view text);

/// Returns `text` with a visible escape for each byte that is not UTF-8, as in printable(), and all
/// else unchanged.
OPTRACE_EXPORTED std::string valid_utf8(std::string_view text);

/// Returns JSON text with the same characters as `\u` escapes, so that it has the same value. Bytes
/// that are not UTF-8 must have been replaced before.
OPTRACE_EXPORTED std::string printable_json(std::string_view json);

}  // namespace optrace
