#include "lookup/source_text/highlighted_source.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

std::string_view colour_of(SourceTokenKind kind) {
  switch (kind) {
    case SourceTokenKind::keyword:
      return kMagenta;
    case SourceTokenKind::string:
      return kGreen;
    case SourceTokenKind::comment:
      return kDim;
    case SourceTokenKind::preprocessor:
      return kYellow;
    case SourceTokenKind::number:
      return kCyan;
    case SourceTokenKind::plain:
    case SourceTokenKind::name:
      break;
  }
  return {};
}

}  // namespace

std::vector<std::string> highlighted(const std::vector<std::string>& lines, SourceLanguage language,
                                     const TerminalStyle& style) {
  const std::string text = joined(lines, "\n");
  std::vector<std::string> result(1);
  // Appends a part of the text. A colour ends with its line.
  const auto append = [&](std::size_t begin, std::size_t end, std::string_view colour) {
    while (begin < end) {
      const std::size_t line_end = std::min(text.find('\n', begin), end);
      if (line_end > begin)
        result.back() += style.paint(
            printable_lines(std::string_view(text).substr(begin, line_end - begin)), colour);
      if (line_end < end) result.emplace_back();
      begin = line_end + 1;
    }
  };
  std::size_t at = 0;
  for (const SourceToken& token : source_tokens(text, language)) {
    append(at, token.begin, "");
    append(token.begin, token.end, colour_of(token.kind));
    at = token.end;
  }
  append(at, text.size(), "");
  return result;
}

}  // namespace optrace
