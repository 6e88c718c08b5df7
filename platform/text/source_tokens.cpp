#include "platform/text/source_tokens.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include <fmt/core.h>

#include "platform/text/ascii_text.h"

namespace optrace {
namespace {

constexpr auto kCppKeywords =
    std::to_array<std::string_view>({"alignas",      "alignof",      "auto",
                                     "bool",         "break",        "case",
                                     "catch",        "char",         "class",
                                     "const",        "const_cast",   "constexpr",
                                     "continue",     "decltype",     "default",
                                     "delete",       "do",           "double",
                                     "else",         "enum",         "explicit",
                                     "extern",       "false",        "final",
                                     "float",        "for",          "friend",
                                     "goto",         "if",           "inline",
                                     "int",          "long",         "mutable",
                                     "namespace",    "new",          "noexcept",
                                     "nullptr",      "operator",     "override",
                                     "private",      "protected",    "public",
                                     "return",       "short",        "signed",
                                     "sizeof",       "static",       "static_assert",
                                     "static_cast",  "struct",       "switch",
                                     "template",     "this",         "throw",
                                     "true",         "try",          "typedef",
                                     "typename",     "union",        "unsigned",
                                     "using",        "virtual",      "void",
                                     "volatile",     "while",        "__global__",
                                     "__device__",   "__host__",     "reinterpret_cast",
                                     "dynamic_cast", "thread_local", "requires"});

bool is_word_start(char c) {
  return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

constexpr auto kPythonKeywords = std::to_array<std::string_view>(
    {"False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
     "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
     "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
     "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"});

class Scanner {
 public:
  Scanner(std::string_view text, SourceLanguage language) : text_(text), language_(language) {}

  std::vector<SourceToken> run() {
    while (at_ < text_.size()) step();
    return std::move(tokens_);
  }

 private:
  bool cpp() const { return language_ == SourceLanguage::cpp; }
  std::string_view rest() const { return text_.substr(at_); }

  void step() {
    const char c = text_[at_];
    if (std::isspace(static_cast<unsigned char>(c)) != 0) {
      if (c == '\n') line_begins_ = true;
      ++at_;
      return;
    }
    const bool line_begins = line_begins_;
    line_begins_ = false;
    if (cpp() && rest().starts_with("//")) return add(SourceTokenKind::comment, end_of_line());
    if (cpp() && rest().starts_with("/*")) return add(SourceTokenKind::comment, behind("*/", 2));
    if (cpp() && c == '#' && line_begins)
      return add(SourceTokenKind::preprocessor, end_of_directive());
    if (!cpp() && c == '#') return add(SourceTokenKind::comment, end_of_line());
    if (language_ == SourceLanguage::python && c == '@' && line_begins)
      return add(SourceTokenKind::preprocessor, end_of_line());
    if (c == '"' || c == '\'') return add(SourceTokenKind::string, end_of_string(at_));
    if (is_word_start(c)) return add_word();
    if (is_digit(c)) return add(SourceTokenKind::number, end_of_number());
    add(SourceTokenKind::plain, at_ + 1);
  }

  void add(SourceTokenKind kind, std::size_t end) {
    tokens_.push_back({kind, at_, end});
    at_ = end;
  }

  void add_word() {
    std::size_t end = at_;
    while (end < text_.size() && (is_word_start(text_[end]) || is_digit(text_[end]))) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    constexpr std::size_t kLongestPrefix = 3;  // `u8R`
    const bool quote = end < text_.size() && (text_[end] == '"' || text_[end] == '\'');
    if (quote && word.size() <= kLongestPrefix && language_ != SourceLanguage::yaml &&
        word.find_first_not_of("rbfuRBFUL8") == std::string_view::npos) {
      return add(SourceTokenKind::string,
                 cpp() && word.ends_with('R') ? end_of_raw_string(end) : end_of_string(end));
    }
    const bool key = language_ == SourceLanguage::yaml && end < text_.size() && text_[end] == ':';
    add(key || is_keyword(word) ? SourceTokenKind::keyword : SourceTokenKind::name, end);
  }

  bool is_keyword(std::string_view word) const {
    if (language_ == SourceLanguage::python) return is_python_keyword(word);
    return cpp() && std::ranges::find(kCppKeywords, word) != kCppKeywords.end();
  }

  std::size_t end_of_line() const { return std::min(text_.find('\n', at_), text_.size()); }

  // A directive continues where a line ends with a backslash.
  std::size_t end_of_directive() const {
    std::size_t end = end_of_line();
    while (end < text_.size() && text_[end - 1] == '\\')
      end = std::min(text_.find('\n', end + 1), text_.size());
    return end;
  }

  // Returns the position behind the next `mark`, after `skipped` bytes.
  std::size_t behind(std::string_view mark, std::size_t skipped) const {
    const std::size_t found = text_.find(mark, at_ + skipped);
    return found == std::string_view::npos ? text_.size() : found + mark.size();
  }

  // `at` is the position of the opening quote.
  std::size_t end_of_string(std::size_t at) const {
    const char quote = text_[at];
    const std::string triple(3, quote);
    const bool is_long =
        language_ == SourceLanguage::python && text_.substr(at).starts_with(triple);
    const std::string_view end = is_long ? std::string_view(triple) : text_.substr(at, 1);
    for (at += end.size(); at < text_.size(); ++at)
      if (text_[at] == '\\')
        ++at;
      else if (!is_long && text_[at] == '\n')
        return at;
      else if (text_.substr(at).starts_with(end))
        return at + end.size();
    return text_.size();
  }

  // R"delimiter(...)delimiter"
  std::size_t end_of_raw_string(std::size_t at) const {
    const std::size_t open = text_.find('(', at);
    if (open == std::string_view::npos) return text_.size();
    const std::string end = fmt::format("){}\"", text_.substr(at + 1, open - at - 1));
    const std::size_t found = text_.find(end, open);
    return found == std::string_view::npos ? text_.size() : found + end.size();
  }

  std::size_t end_of_number() const {
    std::size_t end = at_;
    while (end < text_.size() && (is_word_start(text_[end]) || is_digit(text_[end]) ||
                                  text_[end] == '.' || (cpp() && text_[end] == '\'')))
      ++end;
    return end;
  }

  std::string_view text_;
  SourceLanguage language_;
  std::size_t at_ = 0;
  bool line_begins_ = true;
  std::vector<SourceToken> tokens_;
};

}  // namespace

SourceLanguage language_of(std::string_view file) {
  if (file.ends_with(".py") || file.ends_with(".pyi") || file.ends_with(".pyx"))
    return SourceLanguage::python;
  return file.ends_with(".yaml") ? SourceLanguage::yaml : SourceLanguage::cpp;
}

std::vector<SourceToken> source_tokens(std::string_view text, SourceLanguage language) {
  return Scanner(text, language).run();
}

bool is_python_keyword(std::string_view word) {
  return std::ranges::find(kPythonKeywords, word) != kPythonKeywords.end();
}

}  // namespace optrace
