#include "lookup/locate/definition_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "lookup/locate/locate_query.h"
#include "lookup/source_text/python_source.h"
#include "platform/text/ascii_text.h"
#include "platform/text/joined.h"
#include "platform/text/source_tokens.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxAbove = 40;     // Lines of comments above a definition.
constexpr std::size_t kMaxHeadLines = 4;  // Lines from a definition's first one to its name.

bool has_word(std::string_view line, std::string_view word) {
  for (std::size_t at = line.find(word); at != std::string_view::npos; at = line.find(word, at + 1))
    if ((at == 0 || !is_word_character(line[at - 1])) &&
        (at + word.size() == line.size() || !is_word_character(line[at + word.size()])))
      return true;
  return false;
}

// Returns the word that a definition of the name has in its text.
std::string word_of(const Located& located, SourceLanguage language) {
  if (language == SourceLanguage::yaml)
    return located.name.substr(
        located.name.find("::") == std::string::npos ? 0 : located.name.find("::") + 2);
  if (language == SourceLanguage::python) return located.name.substr(located.name.rfind('.') + 1);
  const std::vector<std::string> parts = symbol_components(located.symbol);
  if (parts.empty()) return {};
  // TORCH_IMPL_FUNC(gelu_out_cpu) defines structured_gelu_out_cpu::impl.
  constexpr std::string_view kStructured = "structured_";
  if (parts.back() == "impl" && parts.size() > 1 &&
      parts[parts.size() - 2].starts_with(kStructured))
    return parts[parts.size() - 2].substr(kStructured.size());
  std::string word = parts.back().starts_with('~') ? parts.back().substr(1) : parts.back();
  constexpr std::string_view kOperator = "operator";
  if (word.starts_with(kOperator)) word = kOperator;
  return word;
}

// Returns true for a word that can't continue the head of a function after its parameters.
bool begins_declaration(std::string_view text, const SourceToken& token) {
  constexpr auto kContinuing = std::to_array<std::string_view>(
      {"const", "noexcept", "override", "final", "try", "requires", "volatile"});
  return (token.kind == SourceTokenKind::name || token.kind == SourceTokenKind::keyword) &&
         std::ranges::find(kContinuing, text.substr(token.begin, token.end - token.begin)) ==
             kContinuing.end();
}

class Finder {
 public:
  Finder(const std::vector<std::string>& lines, SourceLanguage language)
      : lines_(lines), language_(language), text_(fmt::format("{}\n", joined(lines, "\n"))) {}

  // Returns the line, from 0, of the definition of `word` that is nearest to `near`.
  std::optional<std::size_t> nearest(const Located& located, const std::string& word,
                                     std::size_t near) const {
    std::optional<std::size_t> best;
    const auto distance = [&](std::size_t line) { return line > near ? line - near : near - line; };
    for (std::size_t line = 0; line < lines_.size(); ++line)
      if (has_word(lines_[line], word) && (!best || distance(line) < distance(*best)) &&
          defines(located, word, line))
        best = line;
    return best;
  }

  // Returns the number of lines up to the end of the definition that begins at a line.
  std::size_t end(std::size_t line) const {
    switch (language_) {
      case SourceLanguage::python:
        return std::max(PythonSource(text_).end_of_block(line), line + 1);
      case SourceLanguage::yaml:
        return end_of_entry(line);
      case SourceLanguage::cpp:
        break;
    }
    return end_of_statement(line).first;
  }

  // Returns the first line of the comments, decorators and parts of the declaration above a line.
  std::size_t first_line(std::size_t line) const {
    std::size_t first = line;
    while (first > 0 && line - first < kMaxAbove) {
      const std::string_view above = trimmed(lines_[first - 1]);
      const bool belongs = language_ == SourceLanguage::python ? above.starts_with('@')
                           : language_ == SourceLanguage::yaml
                               ? false
                               : above.starts_with("//") || above.starts_with("template") ||
                                     (line - first < kMaxHeadLines && continues(above));
      if (!belongs) break;
      --first;
    }
    return first;
  }

 private:
  // Returns true for a line of C++ that the next one continues: a return type, parameters.
  static bool continues(std::string_view line) {
    return !line.empty() && line[0] != '#' && line[0] != '*' &&
           std::string_view(";{}:)\\/").find(line.back()) == std::string_view::npos;
  }

  bool defines(const Located& located, const std::string& word, std::size_t line) const {
    const std::string_view text = trimmed(lines_[line]);
    switch (language_) {
      case SourceLanguage::python:
        return text.starts_with("def " + word + "(") ||
               text.starts_with("async def " + word + "(") || text.starts_with("class " + word);
      case SourceLanguage::yaml:
        return text.starts_with("- func: " + word + "(");
      case SourceLanguage::cpp:
        break;
    }
    if (located.kind == LocatedKind::type)
      return (has_word(text, "class") || has_word(text, "struct")) && end_of_statement(line).second;
    if (text.starts_with("//") || text.starts_with('*') || text.starts_with("return "))
      return false;
    const bool named = lines_[line].find(word + "(") != std::string::npos ||
                       lines_[line].find("(" + word + ")") != std::string::npos;
    return named && end_of_statement(line).second;
  }

  std::size_t end_of_entry(std::size_t line) const {
    std::size_t end = line + 1;
    while (end < lines_.size() && !trimmed(lines_[end]).empty() && lines_[end][0] == ' ') ++end;
    return end;
  }

  // Returns the number of lines up to the end of the C++ declaration or definition that begins at a
  // line, and whether it has a body.
  std::pair<std::size_t, bool> end_of_statement(std::size_t line) const {
    // Enough for the longest function; the rest of a large file need not be read.
    constexpr std::size_t kMaxSize = std::size_t{256} << 10U;
    std::size_t begin = 0;
    for (std::size_t i = 0; i < line; ++i) begin += lines_[i].size() + 1;
    const std::string_view text = std::string_view(text_).substr(begin, kMaxSize);
    const std::vector<SourceToken> tokens = source_tokens(text, SourceLanguage::cpp);
    const auto line_of = [&](std::size_t at) {
      return line + static_cast<std::size_t>(std::count(
                        text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    };
    const auto symbol = [&](std::size_t at) {
      return at < tokens.size() && tokens[at].kind == SourceTokenKind::plain
                 ? text[tokens[at].begin]
                 : '\0';
    };
    std::size_t parentheses = 0;
    std::size_t braces = 0;
    for (std::size_t at = 0; at < tokens.size(); ++at) {
      const char c = symbol(at);
      if (c == '(' || c == '[') ++parentheses;
      if ((c == ')' || c == ']') && parentheses > 0) --parentheses;
      if (c == '{') ++braces;
      if (c == '}') {
        if (braces > 0) --braces;
        // In a constructor's list of members, as in `: a{1}, b{2} {`, the body follows.
        if (braces == 0 && parentheses == 0 && symbol(at + 1) != ',' && symbol(at + 1) != '{')
          return {line_of(tokens[at].begin) + 1, true};
      }
      if (parentheses != 0 || braces != 0) continue;
      if (c == ';') return {line_of(tokens[at].begin) + 1, false};
      // A macro that stands alone: another declaration follows in another line.
      if (c == ')' && at + 1 < tokens.size() && begins_declaration(text, tokens[at + 1]) &&
          line_of(tokens[at + 1].begin) > line_of(tokens[at].begin))
        return {line_of(tokens[at].begin) + 1, false};
    }
    return {line + 1, false};
  }

  const std::vector<std::string>& lines_;
  SourceLanguage language_;
  std::string text_;
};

}  // namespace

std::optional<DefinitionText> definition_text(const std::vector<std::string>& lines,
                                              const Located& located, bool exact) {
  if (located.line == 0 || lines.empty()) return std::nullopt;
  const SourceLanguage language = language_of(located.file);
  const Finder finder(lines, language);
  std::size_t line = located.line - 1;
  if (!exact || line >= lines.size()) {
    const std::string word = word_of(located, language);
    const auto found = word.empty() ? std::nullopt : finder.nearest(located, word, line);
    if (!found) return std::nullopt;
    line = *found;
  }
  DefinitionText text;
  const std::size_t first = finder.first_line(line);
  const std::size_t end = std::min(finder.end(line), lines.size());
  text.first = static_cast<std::uint32_t>(first + 1);
  text.line = static_cast<std::uint32_t>(line + 1);
  text.moved = text.line != located.line;
  text.lines.assign(lines.begin() + static_cast<std::ptrdiff_t>(first),
                    lines.begin() + static_cast<std::ptrdiff_t>(std::max(end, first + 1)));
  return text;
}

}  // namespace optrace
