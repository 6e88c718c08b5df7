#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "platform/text/ascii_text.h"

namespace optrace {

/// A recursive-descent parser for the Itanium C++ ABI's <mangled-name> that copies its input in
/// folded form, for the keys of symbol_key.h. Folding preserves the number and order of components,
/// so a substitution (`S_`, `S3_`) denotes the same component before and after. Each object parses
/// once: only one of its functions may be called.
class MangledNameParser {
 public:
  /// clang ends a scope in an expression (`sr`) with E, GCC does not.
  enum class Scopes { closed, open };

  MangledNameParser(std::string_view text, Scopes scopes) : text_(text), scopes_(scopes) {
    out_.reserve(text.size());  // Folding makes few names longer.
  }

  /// Returns the folded name; nothing if the text is no mangled name.
  std::optional<std::string> fold();

  /// Returns the outermost name's components without template arguments. Returns nothing for names
  /// within functions and names that start with a substitution (only abbreviations of std classes
  /// do).
  std::optional<std::string> components();

  /// Returns true if components() read template arguments, so that the name is an instance's.
  bool is_instance() const { return is_instance_; }

  struct Lambda {
    std::string enclosing;
    std::string parameters;
    std::string number;
  };

  /// Parses the name of a lambda's operator() in a function.
  std::optional<Lambda> lambda();

  /// Returns the innermost function that encloses a name.
  std::optional<std::string> enclosing();

 private:
  // Deeper than the nesting of any real name. Limits the stack use on hostile input.
  static constexpr int kMaxDepth = 256;

  class Level {
   public:
    explicit Level(int& depth) : depth_(depth) { ++depth_; }
    ~Level() { --depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;
    bool too_deep() const { return depth_ > kMaxDepth; }

   private:
    int& depth_;
  };

  static bool contains(std::string_view set, char c) {
    return c != '\0' && set.find(c) != std::string_view::npos;
  }

  bool at_end() const { return at_ >= text_.size(); }
  char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  bool next_is(std::string_view expected) const { return text_.substr(at_).starts_with(expected); }

  bool take(std::string_view expected) {
    if (!next_is(expected)) return false;
    out_ += expected;
    at_ += expected.size();
    return true;
  }
  bool take(char expected) { return take(std::string_view(&expected, 1)); }
  bool take_any() { return !at_end() && take(text_.substr(at_, 1)); }
  bool take_one_of(std::string_view set) { return contains(set, peek()) && take_any(); }
  bool take_digits() {
    const std::size_t start = at_;
    while (is_digit(peek())) take_any();
    return at_ > start;
  }
  bool take_number() {
    take('n');
    return take_digits();
  }
  // The rest of `T_`, `S3_`, `UlvE0_`: an optional number and an underscore.
  bool take_index() {
    while (is_digit(peek()) || (peek() >= 'A' && peek() <= 'Z')) take_any();
    return take('_');
  }

  // The functions below parse what the ABI's grammar calls by the same name. They return false if
  // no rule matches.
  using Reader = bool (MangledNameParser::*)();
  // Parses zero or more items with `reader`, and the E after them.
  bool until_end(Reader reader) {
    while (!at_end() && peek() != 'E')
      if (!(this->*reader)()) return false;
    return take('E');
  }

  // Names: mangled_name_parser.cpp.
  bool encoding();
  bool special_name();
  bool call_offset();
  bool name();
  bool nested_name();
  bool component();
  bool local_name();
  bool discriminator();
  bool unqualified_name();
  bool base_unqualified_name();
  bool constructor();
  bool destructor();
  bool skip_variant(std::string_view written);
  bool unnamed_type();
  bool template_param_declaration();
  bool abi_tags();
  bool source_name();
  bool operator_name();
  bool substitution();

  // Types and literals: mangled_types.cpp.
  bool template_param();
  bool optional_template_args() { return peek() != 'I' || template_args(); }
  bool template_args();
  bool template_arg();
  bool type();
  bool function_type();
  bool array_type();
  bool decltype_type();
  bool extended_type();
  bool literal();

  // Expressions: mangled_expressions.cpp.
  bool expression();
  bool simple_id();
  bool base_unresolved_name();
  bool unresolved_name();
  bool braced_expression();
  bool function_param();
  bool fold_expression();
  bool new_expression();
  bool name_or_scope();
  bool call();
  bool typed_list();
  bool conversion();
  bool cast();
  bool member_access();
  bool pack_size();
  bool captured_pack();
  bool conditional();
  bool no_operand() { return true; }
  bool vendor_expression();
  bool operator_expression(std::string_view code);

  bool is_instance_ = false;
  std::string_view text_;
  std::size_t at_ = 0;
  std::string out_;
  int depth_ = 0;
  Scopes scopes_;
};

}  // namespace optrace
