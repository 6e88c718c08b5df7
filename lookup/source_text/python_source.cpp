#include "lookup/source_text/python_source.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "platform/text/ascii_text.h"
#include "platform/text/joined.h"
#include "platform/text/source_tokens.h"

namespace optrace {
namespace {

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         static_cast<unsigned char>(c) >= 0x80;
}

bool is_string_prefix(std::string_view word) {
  constexpr std::size_t kLongest = 2;
  return word.size() <= kLongest && word.find_first_not_of("rbfuRBFU") == std::string_view::npos;
}

}  // namespace

/// Splits Python code into names, symbols and the ends of logical lines.
class PythonSource::Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    while (at_ < text_.size()) step();
    add(TokenKind::line_end, at_);
    return std::move(tokens_);
  }

 private:
  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      // Inside of brackets a line continues.
      if (depth_ == 0) add(TokenKind::line_end, at_);
      line_begins_ = true;
      ++at_;
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '\\') {
      at_ += at_ + 1 < text_.size() && text_[at_ + 1] == '\n' ? 2U : 1U;
    } else if (c == '"' || c == '\'') {
      skip_string();
    } else if (is_name_start(c)) {
      read_name();
    } else if (is_digit(c)) {
      while (at_ < text_.size() && (is_digit(text_[at_]) || is_name_start(text_[at_]))) ++at_;
      line_begins_ = false;
    } else {
      read_symbol(c);
    }
  }

  void read_symbol(char c) {
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_ > 0) --depth_;
    const std::size_t begin = at_++;
    add(TokenKind::symbol, begin);
    line_begins_ = false;
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (is_name_start(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'') && is_string_prefix(word)) {
      skip_string();
      return;
    }
    // While a bracket is not closed yet, the imports below it still count.
    if (line_begins_ && depth_ > 0 && (word == "import" || word == "from")) {
      depth_ = 0;
      tokens_.push_back({TokenKind::line_end, begin, begin});
    }
    add(TokenKind::name, begin);
    line_begins_ = false;
  }

  void skip_string() {
    const std::size_t begin = at_;
    const std::string_view quote = text_.substr(at_, 1);
    const std::string triple(3, quote[0]);
    const bool long_string = text_.substr(at_).starts_with(triple);
    const std::string_view end = long_string ? std::string_view(triple) : quote;
    at_ += end.size();
    while (at_ < text_.size() && !text_.substr(at_).starts_with(end)) {
      if (!long_string && text_[at_] == '\n') break;
      at_ += text_[at_] == '\\' ? 2U : 1U;  // In raw strings, too.
    }
    at_ = std::min(at_ + (at_ < text_.size() && text_[at_] != '\n' ? end.size() : 0), text_.size());
    // Its attributes are those of an expression.
    tokens_.push_back({TokenKind::symbol, begin, at_});
    line_begins_ = false;
  }

  void add(TokenKind kind, std::size_t begin) { tokens_.push_back({kind, begin, at_}); }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t depth_ = 0;
  bool line_begins_ = true;
  std::vector<Token> tokens_;
};

/// Reads the import statements.
class PythonSource::ImportReader {
 public:
  explicit ImportReader(PythonSource& source) : source_(source) {}

  void run() {
    bool begins = true;
    while (at_ < source_.tokens_.size()) {
      const Token& token = source_.tokens_[at_++];
      if (begins && token.kind == TokenKind::name) {
        if (source_.text_of(token) == "import") read_import();
        if (source_.text_of(token) == "from") read_from();
      }
      // `try: import torch`
      begins = token.kind == TokenKind::line_end || source_.is_symbol(token, ':') ||
               source_.is_symbol(token, ';');
    }
  }

 private:
  // import torch.nn.functional as F, torch
  void read_import() {
    do {
      const std::string module = dotted_name();
      if (module.empty()) return;
      if (std::string alias = alias_after(); !alias.empty())
        source_.imports_[std::move(alias)] = module;
      else
        source_.imports_[module.substr(0, module.find('.'))] = module.substr(0, module.find('.'));
    } while (take(','));
  }

  // from torch import nn, optim as o
  void read_from() {
    const std::string module = imported_module();
    if (module.empty() || !take_word("import")) return;
    if (take('*')) {
      source_.star_imports_.push_back(module);
      return;
    }
    take('(');
    do {
      const std::string name = word();
      if (name.empty()) return;
      const std::string alias = alias_after();
      source_.imports_[alias.empty() ? name : alias] = fmt::format("{}.{}", module, name);
    } while (take(','));
  }

  // Returns the module of `from .. import x` and `from .conv import x`, too, if the file's package
  // is known; otherwise an empty text.
  std::string imported_module() {
    std::size_t dots = 0;
    while (take('.')) ++dots;
    if (dots == 0) return dotted_name();
    std::string module = source_.package_;
    for (; dots > 1 && !module.empty(); --dots)
      module.erase(module.find('.') == std::string::npos ? 0 : module.rfind('.'));
    if (module.empty()) return {};
    if (at_ < source_.tokens_.size() && source_.text_of(source_.tokens_[at_]) == "import")
      return module;
    const std::string rest = dotted_name();
    return rest.empty() ? std::string() : module + '.' + rest;
  }

  std::string dotted_name() {
    std::string name = word();
    while (!name.empty() && take('.')) name += '.' + word();
    return name;
  }

  std::string alias_after() { return take_word("as") ? word() : std::string(); }

  std::string word() {
    if (at_ >= source_.tokens_.size() || source_.tokens_[at_].kind != TokenKind::name) return {};
    return std::string(source_.text_of(source_.tokens_[at_++]));
  }

  bool take(char symbol) {
    const bool there =
        at_ < source_.tokens_.size() && source_.is_symbol(source_.tokens_[at_], symbol);
    at_ += there ? 1 : 0;
    return there;
  }

  bool take_word(std::string_view expected) {
    const bool there = at_ < source_.tokens_.size() &&
                       source_.tokens_[at_].kind == TokenKind::name &&
                       source_.text_of(source_.tokens_[at_]) == expected;
    at_ += there ? 1 : 0;
    return there;
  }

  PythonSource& source_;
  std::size_t at_ = 0;
};

PythonSource::PythonSource(std::string text, std::string package)
    : text_(std::move(text)), package_(std::move(package)) {
  lines_.push_back(0);
  for (std::size_t i = 0; i < text_.size(); ++i)
    if (text_[i] == '\n') lines_.push_back(i + 1);
  tokens_ = Lexer(text_).run();
  ImportReader(*this).run();
}

std::string_view PythonSource::line(std::size_t number) const {
  if (number >= lines_.size()) return {};
  const std::size_t begin = lines_[number];
  std::string_view line = std::string_view(text_).substr(begin, text_.find('\n', begin) - begin);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<PythonNameInText> PythonSource::name_at(std::size_t line, std::size_t column) const {
  if (line >= lines_.size()) return std::nullopt;
  const std::size_t start = lines_[line];
  const std::size_t position = start + std::min(column, this->line(line).size());
  const auto token = std::ranges::find_if(tokens_, [&](const Token& one) {
    return one.kind == TokenKind::name && one.begin <= position && position <= one.end;
  });
  if (token == tokens_.end() || is_python_keyword(text_of(*token))) return std::nullopt;
  PythonNameInText name = name_ending_at(token);
  name.begin = token->begin - start;
  name.end = token->end - start;
  return name;
}

// Returns the dotted name of which `token` is the last part, without its place.
PythonNameInText PythonSource::name_ending_at(TokenAt token) const {
  PythonNameInText name;
  name.parts.emplace_back(text_of(*token));
  while (token != tokens_.begin() && is_symbol(*(token - 1), '.')) {
    if (token - 1 == tokens_.begin() || (token - 2)->kind != TokenKind::name) {
      name.of_expression = true;
      break;
    }
    token -= 2;
    name.parts.emplace(name.parts.begin(), text_of(*token));
  }
  return name;
}

bool PythonSource::is_super_call_before(TokenAt dot) const {
  constexpr std::ptrdiff_t kTokens = 3;  // `super()`; the forms with arguments end in the same one.
  return dot - tokens_.begin() >= kTokens && is_symbol(*(dot - 1), ')') &&
         is_symbol(*(dot - 2), '(') && text_of(*(dot - kTokens)) == "super";
}

// Returns `x` if `self.x =` is before a token.
std::string PythonSource::attribute_assigned_before(TokenAt value) const {
  constexpr std::ptrdiff_t kTokens = 4;
  if (value - tokens_.begin() < kTokens || !is_symbol(*(value - 1), '=') ||
      (value - 2)->kind != TokenKind::name || !is_symbol(*(value - 3), '.') ||
      text_of(*(value - kTokens)) != "self")
    return {};
  return std::string(text_of(*(value - 2)));
}

std::size_t PythonSource::line_of(const Token& token) const {
  return static_cast<std::size_t>(std::ranges::upper_bound(lines_, token.begin) - lines_.begin()) -
         1;
}

std::size_t PythonSource::end_of_block(std::size_t line) const {
  std::optional<std::size_t> own;
  std::size_t last = line;
  bool begins = true;
  for (const Token& token : tokens_) {
    const std::size_t at = line_of(token);
    if (token.kind == TokenKind::line_end) {
      begins = true;
      continue;
    }
    if (at < line) {
      begins = false;
      continue;
    }
    if (begins && !own) {
      if (at != line) return line;
      own = column_of(token);
    } else if (begins && column_of(token) <= *own) {
      return last + 1;
    }
    begins = false;
    // A string of several lines ends behind its first one.
    if (own)
      last =
          line_of({token.kind, token.end == token.begin ? token.begin : token.end - 1, token.end});
  }
  return own ? last + 1 : line;
}

std::vector<std::string> PythonSource::definitions() const {
  struct Scope {
    std::size_t column;
    std::string prefix;  // Of the names in it.
  };
  std::vector<Scope> scopes;
  std::vector<std::string> names;
  bool begins = true;
  for (auto token = tokens_.begin(); token != tokens_.end(); ++token) {
    const bool first = begins && token->kind == TokenKind::name;
    begins = token->kind == TokenKind::line_end;
    if (!first) continue;
    const std::size_t column = column_of(*token);
    if (text_of(*token) == "async") ++token;
    const bool is_class = text_of(*token) == "class";
    if (!is_class && text_of(*token) != "def") continue;
    if ((++token)->kind != TokenKind::name) continue;
    while (!scopes.empty() && scopes.back().column >= column) scopes.pop_back();
    std::string name =
        (scopes.empty() ? std::string() : scopes.back().prefix) + std::string(text_of(*token));
    scopes.push_back({column, name + (is_class ? "." : ".<locals>.")});
    names.push_back(std::move(name));
  }
  return names;
}

std::vector<PythonCallInText> PythonSource::calls(std::size_t first, std::size_t end) const {
  std::vector<PythonCallInText> found;
  for (auto token = tokens_.begin(); token != tokens_.end() && token + 1 != tokens_.end();
       ++token) {
    if (token->kind != TokenKind::name) continue;
    const bool call = is_symbol(*(token + 1), '(');
    if (!call && (token + 1)->kind != TokenKind::line_end) continue;
    const std::size_t line = line_of(*token);
    if (line < first || line >= end || is_python_keyword(text_of(*token))) continue;
    if (token != tokens_.begin()) {
      const std::string_view before = text_of(*(token - 1));
      if (before == "def" || before == "class") continue;
    }
    PythonNameInText name = name_ending_at(token);
    const auto first_part = token - 2 * (static_cast<std::ptrdiff_t>(name.parts.size()) - 1);
    if (!call &&
        (name.of_expression || first_part == tokens_.begin() || !is_symbol(*(first_part - 1), '=')))
      continue;
    if (name.of_expression && name.parts.size() == 1 && is_super_call_before(token - 1)) {
      name.parts.insert(name.parts.begin(), "super");
      name.of_expression = false;
    }
    name.begin = token->begin - lines_[line];
    name.end = token->end - lines_[line];
    std::string attribute = call ? attribute_assigned_before(first_part) : "";
    found.push_back({std::move(name), line, std::move(attribute), !call});
  }
  return found;
}

std::vector<std::string> PythonSource::full_names(const PythonNameInText& name) const {
  std::vector<std::string> names;
  const auto bound = imports_.find(name.parts.front());
  if (!name.of_expression && bound != imports_.end()) {
    std::vector<std::string> parts = name.parts;
    parts.front() = bound->second;
    return {joined(parts, ".")};
  }
  if (!name.of_expression)
    for (const std::string& module : star_imports_)
      names.push_back(fmt::format("{}.{}", module, joined(name.parts, ".")));
  if (name.of_expression || name.parts.size() > 1)
    names.push_back("torch.Tensor." + name.parts.back());
  return names;
}

}  // namespace optrace
