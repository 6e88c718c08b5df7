#include "pytorch/symbols/symbol_key.h"

#include <array>
#include <utility>

#include "pytorch/symbols/mangled_name_parser.h"

namespace optrace {
namespace {

constexpr std::array kBothScopes = {MangledNameParser::Scopes::open,
                                    MangledNameParser::Scopes::closed};

struct Key {
  std::string text;
  bool of_template = false;  // The parameter types depend on the instance.
};

std::optional<Key> key_of_lambda(std::string_view mangled);

Key key_of_function(std::string_view mangled) {
  if (auto key = key_of_lambda(mangled)) return *std::move(key);
  for (const auto scopes : kBothScopes) {
    MangledNameParser parser(mangled, scopes);
    const auto components = parser.components();
    if (components && parser.is_instance()) return {"_ZN" + *components + "E", true};
  }
  return {canonical_symbol(mangled), false};
}

std::optional<Key> key_of_lambda(std::string_view mangled) {
  for (const auto scopes : kBothScopes) {
    if (const auto lambda = MangledNameParser(mangled, scopes).lambda()) {
      const Key enclosing = key_of_function(lambda->enclosing);
      std::string parameters = lambda->parameters;
      if (enclosing.of_template) parameters.assign(parameters.size(), '.');
      return Key{enclosing.text + "Ul" + parameters + '#' + lambda->number, enclosing.of_template};
    }
  }
  return std::nullopt;
}

}  // namespace

std::string canonical_symbol(std::string_view mangled) {
  if (mangled.starts_with("_Z")) {
    for (const auto scopes : kBothScopes)
      if (auto folded = MangledNameParser(mangled, scopes).fold()) return *std::move(folded);
  }
  return std::string(mangled);
}

std::optional<std::string> template_key(std::string_view mangled) {
  for (const auto scopes : kBothScopes)
    if (const auto components = MangledNameParser(mangled, scopes).components())
      return "_ZN" + *components + "E";
  return std::nullopt;
}

std::string function_key(std::string_view mangled) {
  return key_of_function(mangled).text;
}

std::optional<std::string> lambda_key(std::string_view mangled) {
  auto key = key_of_lambda(mangled);
  return key ? std::optional(std::move(key->text)) : std::nullopt;
}

std::optional<std::string> enclosing_function(std::string_view mangled) {
  for (const auto scopes : kBothScopes)
    if (auto encoding = MangledNameParser(mangled, scopes).enclosing()) return encoding;
  return std::nullopt;
}

}  // namespace optrace
