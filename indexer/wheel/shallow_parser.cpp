#include "indexer/wheel/shallow_parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "platform/text/source_tokens.h"

namespace optrace {
namespace {

enum class TokenKind : std::uint8_t { identifier, number, text, mark, end };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  ///< Of a string literal, the contents.
  std::uint32_t line = 0;

  bool is(std::string_view expected) const {
    return text == expected && (kind == TokenKind::mark || kind == TokenKind::identifier);
  }
};

/// Returns the contents of a string literal, without its prefix and quotes.
std::string_view contents_of(std::string_view literal) {
  const bool is_raw = literal.substr(0, literal.find('"')).ends_with('R');
  if (!is_raw) {
    const std::size_t open = literal.find_first_of("\"'");
    literal.remove_prefix(open + 1);
    const bool is_closed = literal.ends_with('"') || literal.ends_with('\'');
    return is_closed ? literal.substr(0, literal.size() - 1) : literal;
  }
  // R"delimiter(...)delimiter"
  const std::size_t quote = literal.find('"');
  const std::size_t open = std::min(literal.find('(', quote), literal.size() - 1);
  const std::size_t size_of_end = open - quote + 1;
  literal.remove_prefix(open + 1);
  return literal.substr(0, literal.size() - std::min(literal.size(), size_of_end));
}

/// Returns the tokens of code without comments and directives. `::` and `->` are one token each.
std::vector<Token> tokens_of(std::string_view code) {
  std::vector<Token> tokens;
  std::uint32_t line = 1;
  std::size_t at = 0;  // Where `line` is.
  std::size_t end_of_mark = 0;
  for (const SourceToken& token : source_tokens(code, SourceLanguage::cpp)) {
    const std::string_view text = code.substr(token.begin, token.end - token.begin);
    line += static_cast<std::uint32_t>(std::ranges::count(code.substr(at, token.begin - at), '\n'));
    at = token.begin;
    switch (token.kind) {
      case SourceTokenKind::comment:
      case SourceTokenKind::preprocessor:
        break;
      case SourceTokenKind::name:
      case SourceTokenKind::keyword:
        tokens.push_back({TokenKind::identifier, text, line});
        break;
      case SourceTokenKind::number:
        tokens.push_back({TokenKind::number, text, line});
        break;
      case SourceTokenKind::string:
        tokens.push_back({TokenKind::text, contents_of(text), line});
        break;
      case SourceTokenKind::plain:
        if (token.begin == end_of_mark && !tokens.empty() &&
            ((tokens.back().text == ":" && text == ":") ||
             (tokens.back().text == "-" && text == ">"))) {
          tokens.back().text = code.substr(token.begin - 1, 2);
          break;
        }
        tokens.push_back({TokenKind::mark, text, line});
        end_of_mark = token.end;
        break;
    }
  }
  return tokens;
}

bool is_statement_keyword(std::string_view word) {
  constexpr auto kWords = std::to_array<std::string_view>(
      {"if", "for", "while", "switch", "return", "catch", "sizeof", "decltype", "alignof",
       "noexcept", "static_assert", "defined", "throw", "new", "delete", "constexpr"});
  return std::ranges::find(kWords, word) != kWords.end();
}

/// Reads declarations from tokens.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  ParsedCode run() {
    while (at_ < tokens_.size()) {
      declarations();
      ++at_;  // A closing brace without an opening one.
    }
    return std::move(parsed_);
  }

 private:
  const Token& token(std::size_t at) const {
    static const Token kEnd;
    return at < tokens_.size() ? tokens_[at] : kEnd;
  }

  /// Reads declarations up to the brace that closes the scope.
  void declarations() {
    while (at_ < tokens_.size() && !token(at_).is("}")) declaration();
  }

  /// Returns the position after the bracket that closes the one at `at`.
  std::size_t after_closing(std::size_t at, std::string_view open, std::string_view close) const {
    std::size_t depth = 0;
    for (; at < tokens_.size(); ++at) {
      if (token(at).is(open)) ++depth;
      if (token(at).is(close) && --depth == 0) return at + 1;
    }
    return at;
  }

  void declaration() {
    const std::size_t start = at_;
    std::size_t first_parenthesis = 0;
    bool assigned = false;
    while (at_ < tokens_.size()) {
      const Token& here = token(at_);
      if (here.is(";")) {
        add_using(start);
        ++at_;
        return;
      }
      if (here.is("}")) return;
      if (here.is("(")) {
        if (first_parenthesis == 0) first_parenthesis = at_;
        at_ = after_closing(at_, "(", ")");
      } else if (here.is("{")) {
        if (assigned) {
          at_ = after_closing(at_, "{", "}");
          continue;
        }
        block(start, first_parenthesis);
        return;
      } else {
        // `operator=` is a name.
        assigned = assigned || (here.is("=") && first_parenthesis == 0 && at_ > start &&
                                !token(at_ - 1).is("operator"));
        ++at_;
      }
    }
  }

  void add_using(std::size_t start) {
    if (!token(start).is("using") || !token(start + 1).is("namespace")) return;
    std::string name;
    for (std::size_t at = start + 2; at < at_; ++at) name += token(at).text;
    parsed_.used_namespaces.push_back(std::move(name));
  }

  /// Reads the block at a brace. The tokens from `start` on are its head.
  void block(std::size_t start, std::size_t first_parenthesis) {
    while (token(start).is("inline") || token(start).is("static")) ++start;
    if (token(start).is("template")) start = after_closing(start + 1, "<", ">");
    if (token(start).is("namespace")) {
      named_scope(start);
      return;
    }
    if (token(start).is("extern") && token(start + 1).kind == TokenKind::text) {
      ++at_;
      declarations();
      ++at_;
      return;
    }
    if (token(start).is("enum") || token(start).is("union")) {
      at_ = after_closing(at_, "{", "}");
      return;
    }
    const bool is_class = token(start).is("struct") || token(start).is("class");
    if (is_class && (first_parenthesis == 0 || is_attribute(first_parenthesis))) {
      class_scope(start);
      return;
    }
    if (first_parenthesis == 0) {
      at_ = after_closing(at_, "{", "}");
      return;
    }
    const std::string_view macro = token(first_parenthesis - 1).text;
    if (macro.starts_with("TORCH_LIBRARY")) {
      registrations(first_parenthesis);
      return;
    }
    function(start, first_parenthesis);
  }

  // Such as __attribute__((...)) in the head of a class.
  bool is_attribute(std::size_t parenthesis) const {
    return token(parenthesis - 1).is("__attribute__") || token(parenthesis - 1).is("alignas");
  }

  void named_scope(std::size_t start) {
    std::size_t added = 0;
    for (std::size_t at = start + 1; at < at_; ++at) {
      if (token(at).kind != TokenKind::identifier) continue;
      scope_.emplace_back(token(at).text);
      ++added;
    }
    if (added == 0) {
      scope_.emplace_back();
      added = 1;
    }
    inside(added);
  }

  /// Reads the declarations of a scope whose names are on scope_.
  void inside(std::size_t names) {
    ++at_;
    declarations();
    ++at_;
    scope_.resize(scope_.size() - std::min(names, scope_.size()));
  }

  void class_scope(std::size_t start) {
    ParsedClass made;
    made.scope = scope_;
    std::size_t at = start + 1;
    for (; at < at_ && !token(at).is(":"); ++at)
      if (token(at).kind == TokenKind::identifier && !token(at).is("final"))
        made.name = token(at).text;
    for (++at; at < at_; ++at) {
      const std::string_view text = token(at).text;
      if (text == "public" || text == "private" || text == "protected" || text == "virtual")
        made.bases.emplace_back();
      else if (!made.bases.empty() && text != ",")
        made.bases.back() += text;
    }
    const bool named = !made.name.empty();
    scope_.push_back(made.name);
    if (named) parsed_.classes.push_back(std::move(made));
    inside(1);
  }

  /// Returns the position of the first token of the name that ends before `end`.
  std::size_t start_of_name(std::size_t end) const {
    std::size_t start = end;
    for (;;) {
      std::size_t part = start;
      if (part > 0 && token(part - 1).is(">")) {
        part = before_angle(part - 1);
        if (part == 0) return start;
      }
      if (part == 0 || token(part - 1).kind != TokenKind::identifier) return start;
      start = part - 1;
      if (start == 0 || !token(start - 1).is("::")) return start;
      if (start < 2 ||
          (token(start - 2).kind != TokenKind::identifier && !token(start - 2).is(">")))
        return start - 1;  // Such as `::std::move`.
      start -= 1;
    }
  }

  /// Returns the position of the `<` that the `>` at `close` closes; 0 if there is none nearby.
  std::size_t before_angle(std::size_t close) const {
    constexpr std::size_t kFarthest = 200;
    std::size_t depth = 0;
    for (std::size_t at = close, steps = 0; steps < kFarthest; --at, ++steps) {
      const Token& here = token(at);
      if (here.is(">")) ++depth;
      if (here.is("<") && --depth == 0) return at;
      if (here.is(";") || here.is("{") || here.is("}") || at == 0) return 0;
    }
    return 0;
  }

  /// Returns the tokens' text without template arguments.
  std::string name_text(std::size_t start, std::size_t end) const {
    std::string name;
    std::size_t depth = 0;
    for (std::size_t at = start; at < end; ++at) {
      if (token(at).is("<")) ++depth;
      if (depth == 0) name += token(at).text;
      if (token(at).is(">") && depth > 0) --depth;
    }
    return name.starts_with("::") ? name.substr(2) : name;
  }

  std::size_t parameter_count(std::size_t open) const {
    const std::size_t end = after_closing(open, "(", ")") - 1;
    if (open + 1 >= end || (end == open + 2 && token(open + 1).is("void"))) return 0;
    std::size_t count = 1;
    std::size_t depth = 0;
    for (std::size_t at = open + 1; at < end; ++at) {
      const Token& here = token(at);
      if (here.is("(") || here.is("{") || here.is("<") || here.is("[")) ++depth;
      if (here.is(")") || here.is("}") || here.is(">") || here.is("]")) depth -= depth > 0 ? 1 : 0;
      if (here.is(",") && depth == 0) ++count;
    }
    return count;
  }

  void function(std::size_t start, std::size_t open) {
    ParsedFunction made;
    made.scope = scope_;
    const std::size_t name = std::max(start, start_of_name(open));
    made.name = name_text(name, open);
    made.line = token(open - 1).line;
    made.parameters = parameter_count(open);
    body(made);
    if (!made.name.empty()) parsed_.functions.push_back(std::move(made));
  }

  /// Reads the calls and variables of a function's body, and ends after it.
  void body(ParsedFunction& function) {
    const std::size_t start_of_body = at_;
    const std::size_t end = after_closing(at_, "{", "}");
    for (; at_ < end; ++at_) {
      if (!token(at_).is("(")) continue;
      const Token& before = token(at_ - 1);
      if ((before.kind != TokenKind::identifier && !before.is(">")) ||
          is_statement_keyword(before.text))
        continue;
      const std::size_t start = start_of_name(at_);
      if (start == at_) continue;
      const Token& lead = token(start - 1);
      if (lead.kind == TokenKind::identifier && !is_statement_keyword(lead.text)) {
        const std::size_t type = start_of_name(start);
        if (type < start)
          function.variables.emplace_back(token(start).text, name_text(type, start));
        continue;
      }
      ParsedCall call;
      call.name = name_text(start, at_);
      call.line = token(start).line;
      call.is_member = lead.is(".") || lead.is("->");
      if (call.is_member && token(start - 2).kind == TokenKind::identifier)
        call.receiver = token(start - 2).text;
      function.calls.push_back(std::move(call));
    }
    add_variables(function, start_of_body, end);
  }

  /// Records `Type name;` in a body; `auto name = f(...)` is left out.
  void add_variables(ParsedFunction& function, std::size_t start, std::size_t end) {
    for (std::size_t at = start + 2; at < end; ++at) {
      if (token(at).is(";") && token(at - 1).kind == TokenKind::identifier &&
          token(at - 2).kind == TokenKind::identifier &&
          !is_statement_keyword(token(at - 2).text)) {
        const std::size_t type = start_of_name(at - 1);
        if (type < at - 1)
          function.variables.emplace_back(token(at - 1).text, name_text(type, at - 1));
      }
    }
  }

  void registrations(std::size_t open) {
    const std::size_t end = after_closing(at_, "{", "}");
    const bool is_impl = token(open - 1).is("TORCH_LIBRARY_IMPL");
    for (; at_ < end; ++at_) {
      const bool is_definition = token(at_).is("def");
      if ((!is_definition && !token(at_).is("impl")) || !token(at_ + 1).is("(") ||
          !token(at_ - 1).is(".") || token(at_ + 2).kind != TokenKind::text)
        continue;
      ParsedRegistration made;
      made.scope = scope_;
      made.library = token(open + 1).text;
      if (is_impl) made.key = token(open + 3).text;
      made.op = token(at_ + 2).text;
      made.is_definition = is_definition;
      made.line = token(at_ - 2).line;
      const std::size_t close = after_closing(at_ + 1, "(", ")");
      for (std::size_t at = at_ + 3; at < close; ++at) {
        if (!token(at).is("TORCH_FN") || !token(at + 1).is("(")) continue;
        made.function = name_text(at + 2, after_closing(at + 1, "(", ")") - 1);
      }
      parsed_.registrations.push_back(std::move(made));
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  std::vector<std::string> scope_;
  ParsedCode parsed_;
};

}  // namespace

ParsedCode parse_shallowly(std::string_view code) {
  return Parser(tokens_of(code)).run();
}

}  // namespace optrace
