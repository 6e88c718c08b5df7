#include "pytorch/symbols/mangled_name_parser.h"

#include <utility>

#include "pytorch/source/cpu_capability.h"

namespace optrace {
namespace {

constexpr std::string_view kAnonymousNamespace = "_GLOBAL__N_1";
constexpr std::string_view kDeviceStub = "__device_stub__";

bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}

}  // namespace

std::optional<std::string> MangledNameParser::fold() {
  if (!take("_Z") || !encoding() || !(at_end() || contains(".@", peek()))) return std::nullopt;
  return std::move(out_);
}

std::optional<std::string> MangledNameParser::components() {
  if (!take("_Z")) return std::nullopt;
  const bool nested = take('N');
  while (nested && take_one_of("VK")) {
  }
  nested&& take_one_of("RO");
  std::string found = take("St") ? "St" : "";
  do {
    if (contains("STMZG", peek()) || next_is("Dt") || next_is("DT")) return std::nullopt;
    if (peek() == 'L') ++at_;
    const std::size_t start = out_.size();
    const bool conversion = next_is("cv");
    if (!base_unqualified_name()) return std::nullopt;
    found += conversion ? "cv" : out_.substr(start);
    is_instance_ = is_instance_ || peek() == 'I';
    if (!abi_tags() || !optional_template_args()) return std::nullopt;
  } while (nested && !at_end() && peek() != 'E');
  return found;
}

std::optional<MangledNameParser::Lambda> MangledNameParser::lambda() {
  auto enclosing_symbol = enclosing();
  if (!enclosing_symbol || !take('E') || !take('N')) return std::nullopt;
  take('K');
  if (!take("Ul")) return std::nullopt;
  std::string parameters;
  while (!at_end() && peek() != 'E') {
    const std::size_t start = at_;
    if (!type()) return std::nullopt;
    const std::string_view read = text_.substr(start, at_ - start);
    parameters += read.size() == 1 ? read : ".";
  }
  take('E');
  const std::size_t start = at_;
  if (!take_index() || !next_is("cl")) return std::nullopt;
  const std::string_view index = text_.substr(start, at_ - start - 1);
  // `_` is the first lambda, `0_` the second.
  std::size_t number = 0;
  for (const char digit : index) number = number * 10 + static_cast<std::size_t>(digit - '0');
  return Lambda{std::move(*enclosing_symbol), parameters == "v" ? "" : parameters,
                std::to_string(index.empty() ? 0 : number + 1)};
}

std::optional<std::string> MangledNameParser::enclosing() {
  if (!take("_Z") || !take('Z')) return std::nullopt;
  const std::size_t start = out_.size();
  if (!encoding() || peek() != 'E') return std::nullopt;
  return "_Z" + out_.substr(start);
}

bool MangledNameParser::encoding() {
  const Level level(depth_);
  if (level.too_deep()) return false;
  if (peek() == 'T' || (peek() == 'G' && contains("VRTA", peek(1)))) return special_name();
  if (!name()) return false;
  while (!at_end() && !contains("E.@", peek()))
    if (!type()) return false;
  return true;
}

bool MangledNameParser::special_name() {
  if (take("TV") || take("TT") || take("TI") || take("TS")) return type();
  if (take("Tc")) return call_offset() && call_offset() && encoding();
  if (take("TC")) return type() && take_digits() && take('_') && type();
  if (take("TW") || take("TH") || take("GV")) return name();
  if (take("GR")) {
    const bool is_named = name();
    take_index();  // GCC leaves it out.
    return is_named;
  }
  if (take("GTt") || take("GTn") || take("GA")) return encoding();
  return take('T') && call_offset() && encoding();
}

bool MangledNameParser::call_offset() {
  if (take('h')) return take_number() && take('_');
  return take('v') && take_number() && take('_') && take_number() && take('_');
}

bool MangledNameParser::name() {
  const Level level(depth_);
  if (level.too_deep()) return false;
  if (peek() == 'N') return nested_name();
  if (peek() == 'Z') return local_name();
  if (peek() == 'S' && peek(1) != 't') return substitution() && template_args();
  take("St");
  return unqualified_name() && optional_template_args();
}

bool MangledNameParser::nested_name() {
  if (!take('N')) return false;
  take('H');
  while (take_one_of("VK")) {
  }
  take_one_of("RO");
  bool any = false;
  while (!at_end() && peek() != 'E') {
    if (!component()) return false;
    any = true;
  }
  return any && take('E');
}

bool MangledNameParser::component() {
  switch (peek()) {
    case 'S':
      return take("St") || substitution();
    case 'T':
      return template_param();
    case 'I':
      return template_args();
    case 'M':
      return take_any();
    case 'D':
      return peek(1) == 't' || peek(1) == 'T' ? decltype_type() : unqualified_name();
    default:
      return unqualified_name();
  }
}

bool MangledNameParser::local_name() {
  if (!take('Z') || !encoding() || !take('E')) return false;
  if (take('s')) return discriminator();
  if (take('d')) return take_index() && name();
  return name() && discriminator();
}

// Parses an optional discriminator. Returns false only if one starts and is incomplete.
bool MangledNameParser::discriminator() {
  if (take("__")) return take_digits() && take('_');
  return peek() != '_' || (take('_') && take_digits());
}

bool MangledNameParser::unqualified_name() {
  if (peek() == 'L' || (peek() == 'F' && is_digit(peek(1)))) {
    if (peek() == 'L')
      ++at_;  // Internal linkage: GCC marks it here, clang in other places.
    else
      take_any();
  }
  return base_unqualified_name() && abi_tags();
}

bool MangledNameParser::base_unqualified_name() {
  const char first = peek();
  if (is_digit(first)) return source_name();
  if (first == 'C') return constructor();
  if (first == 'D') return take("DC") ? until_end(&MangledNameParser::source_name) : destructor();
  if (first == 'U') return unnamed_type();
  return operator_name();
}

bool MangledNameParser::constructor() {
  if (next_is("CI")) {
    at_ += 2;
    return skip_variant("CI1") && type();
  }
  ++at_;
  return skip_variant("C1");
}

bool MangledNameParser::destructor() {
  ++at_;
  return skip_variant("D1");
}

bool MangledNameParser::skip_variant(std::string_view written) {
  if (!is_digit(peek())) return false;
  ++at_;
  out_ += written;
  return true;
}

bool MangledNameParser::unnamed_type() {
  if (take("Ut")) return take_index();
  if (!take("Ul")) return false;
  while (peek() == 'T' && contains("yntpk", peek(1)))
    if (!template_param_declaration()) return false;
  return until_end(&MangledNameParser::type) && take_index();
}

bool MangledNameParser::template_param_declaration() {
  if (take("Ty")) return true;
  if (take("Tn")) return type();
  if (take("Tk")) return name();
  if (take("Tt")) return until_end(&MangledNameParser::template_param_declaration);
  return take("Tp") && template_param_declaration();
}

bool MangledNameParser::abi_tags() {
  while (take('B'))
    if (!source_name()) return false;
  return true;
}

bool MangledNameParser::source_name() {
  std::size_t length = 0;
  while (is_digit(peek())) {
    length = length * 10 + static_cast<std::size_t>(peek() - '0');
    ++at_;
    if (length > text_.size()) return false;
  }
  if (length == 0 || length > text_.size() - at_) return false;
  std::string_view name = text_.substr(at_, length);
  at_ += length;
  // A capability is a namespace, so another name must follow.
  const bool is_namespace = !at_end() && !contains("EIB", peek());
  if (name.starts_with("_GLOBAL__N_") || name.starts_with("_GLOBAL_.N_") ||
      name.starts_with("_GLOBAL_$N_")) {
    name = kAnonymousNamespace;
  } else if (is_namespace && is_cpu_capability(name)) {
    name = kBaselineCapability;
  } else if (name.starts_with(kDeviceStub) && name.size() > kDeviceStub.size()) {
    name.remove_prefix(kDeviceStub.size());
  }
  out_ += std::to_string(name.size());
  out_ += name;
  return true;
}

bool MangledNameParser::operator_name() {
  if (take("cv")) return type();
  if (take("li")) return source_name();
  if (peek() == 'v' && is_digit(peek(1))) return take_any() && take_any() && source_name();
  return is_lower(peek()) && contains("abcdefghijklmnopqrstuvwxyzLISVRAMOEN", peek(1)) &&
         take_any() && take_any();
}

bool MangledNameParser::substitution() {
  if (!take('S')) return false;
  if (take_one_of("tabsiod")) return abi_tags();
  return take_index();
}

}  // namespace optrace
