// The types of mangled names.

#include "pytorch/symbols/mangled_name_parser.h"

namespace optrace {

bool MangledNameParser::template_param() {
  if (!take('T')) return false;
  if (take('L')) return take_digits() && take('_') && take_index();
  return take_index();
}

bool MangledNameParser::template_args() {
  const Level level(depth_);
  return !level.too_deep() && take('I') && until_end(&MangledNameParser::template_arg);
}

bool MangledNameParser::template_arg() {
  const Level level(depth_);
  if (level.too_deep()) return false;
  switch (peek()) {
    case 'X':
      return take_any() && expression() && take('E');
    case 'L':
      return literal();
    case 'J':
    case 'I':  // GCC's older spelling of a pack.
      return take_any() && until_end(&MangledNameParser::template_arg);
    case 'T':
      if (contains("yntpk", peek(1))) return template_param_declaration() && template_arg();
      return type();
    default:
      return type();
  }
}

bool MangledNameParser::type() {
  const Level level(depth_);
  if (level.too_deep()) return false;
  const char first = peek();
  if (is_digit(first) || first == 'N' || first == 'Z') return name();
  switch (first) {
    case 'r':
    case 'V':
    case 'K':
    case 'P':
    case 'R':
    case 'O':
    case 'C':
    case 'G':
      return take_any() && type();
    case 'U':
      if (is_digit(peek(1)))
        return take_any() && source_name() && optional_template_args() && type();
      return name();
    case 'u':
      return take_any() && source_name() && optional_template_args();
    case 'F':
      return function_type();
    case 'A':
      return array_type();
    case 'M':
      return take_any() && type() && type();
    case 'T':
      if (contains("sue", peek(1))) return take_any() && take_any() && name();
      return template_param() && optional_template_args();
    case 'S':
      if (peek(1) == 't') return name();
      return substitution() && optional_template_args();
    case 'D':
      return extended_type();
    default:
      return take_one_of("vwbcahstijlmxynofdegz");
  }
}

bool MangledNameParser::function_type() {
  if (!take('F')) return false;
  take('Y');
  while (!at_end() && peek() != 'E')
    if (contains("RO", peek()) && peek(1) == 'E')
      take_any();
    else if (!type())
      return false;
  return take('E');
}

bool MangledNameParser::array_type() {
  if (!take('A')) return false;
  if (is_digit(peek()))
    take_digits();
  else if (peek() != '_' && !expression())
    return false;
  return take('_') && type();
}

bool MangledNameParser::decltype_type() {
  return (take("Dt") || take("DT")) && expression() && take('E');
}

bool MangledNameParser::extended_type() {
  switch (peek(1)) {
    case 't':
    case 'T':
      return decltype_type();
    case 'p':
      return take("Dp") && type();
    case 'o':
    case 'x':
      return take_any() && take_any() && type();
    case 'O':
      return take("DO") && expression() && take('E') && function_type();
    case 'w':
      return take("Dw") && until_end(&MangledNameParser::type) && function_type();
    case 'v':
      take("Dv");
      if (is_digit(peek()))
        take_digits();
      else if (!take('_') || !expression())
        return false;
      return take('_') && (take('p') || type());
    case 'F':
      return take("DF") && take_digits() && take_one_of("_bx");
    case 'B':
    case 'U':
      return take_any() && take_any() && take_digits() && take('_');
    default:
      return contains("acdefhiusn", peek(1)) && take_any() && take_any();
  }
}

// <expr-primary>
bool MangledNameParser::literal() {
  if (!take('L')) return false;
  if (take("_Z") || take('Z')) return encoding() && take('E');
  if (!type()) return false;
  while (is_digit(peek()) || contains("nabcdef_", peek())) take_any();
  return take('E');
}

}  // namespace optrace
