#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace optrace {

enum class SourceLanguage : std::uint8_t { cpp, python, yaml };

/// Returns the language of a source file, by the end of its name. Everything but Python and YAML is
/// C++.
SourceLanguage language_of(std::string_view file);

enum class SourceTokenKind : std::uint8_t {
  plain,  ///< One character: an operator, a bracket.
  name,
  number,
  keyword,
  string,  ///< A string or a character.
  comment,
  preprocessor,  ///< A directive with its lines, or the name of a Python decorator.
};

struct SourceToken {
  SourceTokenKind kind = SourceTokenKind::plain;
  std::size_t begin = 0, end = 0;  ///< In bytes of the text.
};

/// Splits source code into tokens, without the white space between them. The text may be invalid,
/// or begin and end anywhere.
std::vector<SourceToken> source_tokens(std::string_view text, SourceLanguage language);

/// Returns true for a word that Python reserves.
bool is_python_keyword(std::string_view word);

}  // namespace optrace
