// The expressions of mangled names.

#include <algorithm>
#include <array>

#include "pytorch/symbols/mangled_name_parser.h"

namespace optrace {
namespace {

// Operator codes by the number of operand expressions after them. Operators with another structure
// are in MangledNameParser::expression().
constexpr std::string_view kUnaryOperators = " ps ng ad de co nt sz az nx te sp tw pp mm dl da ";
constexpr std::string_view kBinaryOperators =
    " pl mi ml dv rm an or eo aS pL mI mL dV rM aN oR eO ls rs lS rS eq ne lt gt le ge ss aa oo cm"
    " pm pt ix ds ";

bool lists(std::string_view operators, std::string_view code) {
  for (std::size_t at = 1; at + 2 < operators.size(); at += 3)
    if (operators.substr(at, 2) == code) return true;
  return false;
}

}  // namespace

bool MangledNameParser::simple_id() {
  return source_name() && abi_tags() && optional_template_args();
}

bool MangledNameParser::base_unresolved_name() {
  if (take("on")) return operator_name() && optional_template_args();
  if (take("dn")) return is_digit(peek()) ? simple_id() : type();
  return is_digit(peek()) ? simple_id() : (operator_name() && optional_template_args());
}

bool MangledNameParser::unresolved_name() {
  take("gs");
  if (!take("sr")) return base_unresolved_name();
  if (take('N')) {
    if (!type()) return false;
    return until_end(&MangledNameParser::simple_id) && base_unresolved_name();
  }
  if (is_digit(peek()) && scopes_ == Scopes::closed)
    return until_end(&MangledNameParser::simple_id) && base_unresolved_name();
  return type() && base_unresolved_name();
}

bool MangledNameParser::braced_expression() {
  if (take("di")) return source_name() && braced_expression();
  if (take("dx")) return expression() && braced_expression();
  return expression();
}

bool MangledNameParser::expression() {
  struct Operator {
    std::string_view code;
    Reader operands;
  };
  static constexpr auto kOperators = std::to_array<Operator>({
      {"cl", &MangledNameParser::call},           {"il", &MangledNameParser::call},
      {"tl", &MangledNameParser::typed_list},     {"cv", &MangledNameParser::conversion},
      {"nw", &MangledNameParser::new_expression}, {"na", &MangledNameParser::new_expression},
      {"dc", &MangledNameParser::cast},           {"sc", &MangledNameParser::cast},
      {"cc", &MangledNameParser::cast},           {"rc", &MangledNameParser::cast},
      {"ti", &MangledNameParser::type},           {"st", &MangledNameParser::type},
      {"at", &MangledNameParser::type},           {"dt", &MangledNameParser::member_access},
      {"pt", &MangledNameParser::member_access},  {"sZ", &MangledNameParser::pack_size},
      {"sP", &MangledNameParser::captured_pack},  {"qu", &MangledNameParser::conditional},
      {"tr", &MangledNameParser::no_operand},
  });
  const Level level(depth_);
  if (level.too_deep()) return false;
  const char first = peek();
  if (first == 'L') return literal();
  if (first == 'T') return template_param();
  if (is_digit(first)) return unresolved_name();
  const std::string_view code = text_.substr(at_, 2);
  if (code == "gs" || code == "sr" || code == "on" || code == "dn") return name_or_scope();
  if (code == "fp" || (code == "fL" && is_digit(peek(2)))) return function_param();
  if (first == 'f' && contains("lrLR", peek(1))) return fold_expression();
  const auto* const found = std::ranges::find(kOperators, code, &Operator::code);
  if (found != kOperators.end()) return take(code) && (this->*found->operands)();
  return first == 'u' ? vendor_expression() : operator_expression(code);
}

bool MangledNameParser::name_or_scope() {
  const bool is_allocation = next_is("gsn") || next_is("gsd");
  return is_allocation ? take("gs") && expression() : unresolved_name();
}

bool MangledNameParser::call() {
  return until_end(&MangledNameParser::braced_expression);
}

bool MangledNameParser::typed_list() {
  return type() && call();
}

bool MangledNameParser::conversion() {
  return type() && (take('_') ? until_end(&MangledNameParser::expression) : expression());
}

bool MangledNameParser::cast() {
  return type() && expression();
}

bool MangledNameParser::member_access() {
  return expression() && unresolved_name();
}

bool MangledNameParser::pack_size() {
  return peek() == 'T' ? template_param() : function_param();
}

bool MangledNameParser::captured_pack() {
  return until_end(&MangledNameParser::template_arg);
}

bool MangledNameParser::conditional() {
  return expression() && expression() && expression();
}

bool MangledNameParser::vendor_expression() {
  return take_any() && source_name() && until_end(&MangledNameParser::template_arg);
}

bool MangledNameParser::operator_expression(std::string_view code) {
  if (lists(kUnaryOperators, code)) {
    take(code);
    if (code == "pp" || code == "mm") take('_');
    return expression();
  }
  return lists(kBinaryOperators, code) && take(code) && expression() && expression();
}

bool MangledNameParser::function_param() {
  if (take("fL")) {
    if (!take_digits() || !take('p')) return false;
  } else if (!take("fp")) {
    return false;
  }
  if (take('T')) return true;
  while (take_one_of("rVK")) {
  }
  return take_index();
}

bool MangledNameParser::fold_expression() {
  const bool both_sides = contains("LR", peek(1));
  take_any();
  take_any();
  const std::string_view code = text_.substr(at_, 2);
  return lists(kBinaryOperators, code) && take(code) && expression() &&
         (!both_sides || expression());
}

bool MangledNameParser::new_expression() {
  while (peek() != '_')
    if (at_end() || !expression()) return false;
  return take('_') && type() &&
         (take("pi") ? until_end(&MangledNameParser::expression) : take('E'));
}

}  // namespace optrace
