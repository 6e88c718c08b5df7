#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace optrace {

/// A name in Python code, such as `F.conv2d`, up to the part that was asked for.
struct PythonNameInText {
  std::vector<std::string> parts;  ///< "F", "conv2d"
  bool of_expression = false;      ///< An attribute of a call or the like: `f(x).add_`.
  std::size_t begin = 0, end = 0;  ///< The last part, in bytes from the start of its line.
};

/// A call in Python code: the name before its opening parenthesis.
struct PythonCallInText {
  PythonNameInText name;
  std::size_t line = 0;           ///< From 0; that of the last part of the name.
  std::string attribute;          ///< The `x` of `self.x = f()`; empty for other calls.
  bool through_variable = false;  ///< `f` of `call = f`, which a later `call()` may call.
};

/// The text of a Python file, which need not be valid: names, and what imports bind them to.
/// Strings and comments are skipped.
class PythonSource {
 public:
  /// `package` is the package that the file's relative imports start from, such as
  /// `torch.nn.modules`. If it is empty, they are skipped.
  explicit PythonSource(std::string text, std::string package = {});

  /// Returns the name at a position: a line from 0, and bytes from its start. Both ends of a name
  /// belong to it. Nothing where there is no name, and for keywords.
  std::optional<PythonNameInText> name_at(std::size_t line, std::size_t column) const;

  /// Returns the full names that `name` may have, in the order in which to try them. For `F.conv2d`
  /// after `import torch.nn.functional as F` it is `torch.nn.functional.conv2d`; an attribute of
  /// anything that was not imported may be a method of a tensor: `torch.Tensor.add_`.
  std::vector<std::string> full_names(const PythonNameInText& name) const;

  /// Returns the number of lines up to the end of the class or function that begins at a line, from
  /// 0: the lines that follow it and have a deeper indentation. The number of that line if nothing
  /// begins there.
  std::size_t end_of_block(std::size_t line) const;

  /// Returns the calls whose names end in the lines from `first` up to `end`, which is not
  /// included, in their order, and the names that are assigned to variables. `super().f(...)` has
  /// the parts `super` and `f`.
  std::vector<PythonCallInText> calls(std::size_t first, std::size_t end) const;

  /// Returns the functions and classes by the names that Python gives them in their module:
  /// `Net.forward`, `outer.<locals>.inner`.
  std::vector<std::string> definitions() const;

  /// Returns a line without its end; empty behind the last one.
  std::string_view line(std::size_t number) const;

 private:
  enum class TokenKind : std::uint8_t { name, symbol, line_end };
  struct Token {
    TokenKind kind = TokenKind::symbol;
    std::size_t begin = 0, end = 0;  ///< In bytes of the text.
  };

  class Lexer;
  class ImportReader;

  using TokenAt = std::vector<Token>::const_iterator;

  PythonNameInText name_ending_at(TokenAt token) const;
  bool is_super_call_before(TokenAt dot) const;
  std::string attribute_assigned_before(TokenAt value) const;
  std::size_t line_of(const Token& token) const;
  /// Of the first token of a logical line, that is the indentation.
  std::size_t column_of(const Token& token) const { return token.begin - lines_[line_of(token)]; }

  std::string_view text_of(const Token& token) const {
    return std::string_view(text_).substr(token.begin, token.end - token.begin);
  }
  bool is_symbol(const Token& token, char symbol) const {
    return token.kind == TokenKind::symbol && text_[token.begin] == symbol;
  }

  std::string text_;
  std::string package_;
  std::vector<std::size_t> lines_;  ///< The start of each line.
  std::vector<Token> tokens_;
  /// What imports bind names to: F, torch.nn.functional.
  std::map<std::string, std::string> imports_;
  std::vector<std::string> star_imports_;  ///< Modules of which all names were imported.
};

}  // namespace optrace
