#pragma once

#include <string>
#include <string_view>

namespace optrace {

// Text from a traced process, a file or the command line may drive a terminal, hide what it says or
// give orders to a CI runner that reads the log. These are the only functions that make it
// harmless; each applied to its own result changes nothing.
//
// What is not shown as it is: control characters (C0 but the ones named below, DEL and C1),
// characters that turn the direction of writing or can't be seen (zero-width characters, soft
// hyphens, word joiners, fillers, tags), other ends of lines, noncharacters, and bytes that are no
// UTF-8, surrogates among them. Each becomes an escape that can be seen, as Python spells it:
// `\x1b`, `\u202e`, `\U000e0041`, `\xff`; a surrogate is `\udc80`.

/// `text` on one line: tabs and ends of lines become escapes too. So does `##[`, which GitHub's
/// runner takes for a command wherever it is.
std::string printable(std::string_view text);

/// `text` of one or several lines, as messages have it: tabs and line feeds stay, and no line is a
/// command to a CI runner: GitHub's also takes lines that start with `::`, behind any white space.
std::string printable_lines(std::string_view text);

/// The same for a whole output of optrace's own, whose colours (SGR sequences) and links (OSC 8, to
/// https) stay.
std::string printable_output(std::string_view text);

/// `text` with escapes that can be seen in place of bytes that are no UTF-8, as printable() has
/// them, and all else as it is.
std::string valid_utf8(std::string_view text);

/// JSON text with the same characters as `\u` escapes, so that it is the same value. Bytes that are
/// no UTF-8 must have been replaced before.
std::string printable_json(std::string_view json);

}  // namespace optrace
