#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// Turns the pager off, for --no-pager.
void disable_pager();

/// Returns the command line of a pager from $OPTRACE_PAGER or $PAGER, as git treats them: a value
/// with characters that a shell interprets is run by one, since the user wrote it. nullopt for an
/// empty value and `cat`. Throws Error(usage) for an unclosed quote.
std::optional<std::vector<std::string>> pager_command(const std::string& value);

/// Returns the number of rows that the text takes on a terminal of this width. Colours and links
/// take no columns.
std::size_t rows_of(std::string_view text, std::size_t width);

/// Returns the text without links (OSC 8).
std::string without_links(std::string_view text);

/// Writes a whole answer to standard output. On a terminal with fewer rows than the answer, it goes
/// through the user's pager, `less` by default. Returns false and throws as
/// write_standard_output() does.
bool write_answer(std::string_view text);

}  // namespace optrace
