#include "indexer/wheel/function_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "pytorch/symbols/demangled.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

// The name of an unnamed namespace in a canonical symbol.
constexpr std::string_view kUnnamed = "_GLOBAL__N_1";

/// Returns the parts of `a::b::c`.
std::vector<std::string> parts_of(std::string_view name) {
  std::vector<std::string> parts;
  while (!name.empty()) {
    const std::size_t end = name.find("::");
    parts.emplace_back(name.substr(0, end));
    if (end == std::string_view::npos) break;
    name.remove_prefix(end + 2);
  }
  return parts;
}

/// Returns the key that consists of these names (template_key). An empty name is that of an unnamed
/// namespace.
std::string key_of(const std::vector<std::string>& names) {
  std::string key = names.size() == 1 ? "_Z" : "_ZN";
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string_view name = names[i].empty() ? kUnnamed : std::string_view(names[i]);
    if (i > 0 && i + 1 == names.size() && name == names[i - 1]) {
      key += "C1";  // A constructor.
      continue;
    }
    key += std::to_string(name.size());
    key += name;
  }
  if (names.size() > 1) key += 'E';
  return key;
}

std::vector<std::string> joined(const std::vector<std::string>& scope, std::string_view name) {
  std::vector<std::string> names = scope;
  for (std::string& part : parts_of(name)) names.push_back(std::move(part));
  return names;
}

std::string qualified(const std::vector<std::string>& scope, std::string_view name) {
  std::string text;
  for (const std::string& part : joined(scope, name)) {
    if (part.empty()) continue;
    if (!text.empty()) text += "::";
    text += part;
  }
  return text;
}

/// Returns the number of a function's parameters; nothing if the name can't be demangled.
std::optional<std::size_t> parameter_count(const std::string& symbol) {
  const std::string text = demangled(symbol);
  if (text.empty()) return std::nullopt;
  constexpr std::string_view kUnnamedNamespace = "(anonymous namespace)";
  std::size_t depth = 0;
  std::size_t count = 0;
  bool inside = false;
  bool anything = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (text.compare(at, kUnnamedNamespace.size(), kUnnamedNamespace) == 0) {
      anything = anything || inside;
      at += kUnnamedNamespace.size() - 1;
    } else if (c == '(' && depth == 0 && !inside) {
      inside = true;
    } else if (c == ')' && depth == 0 && inside) {
      break;
    } else if (c == '(' || c == '<' || c == '{') {
      ++depth;
    } else if (c == ')' || c == '>' || c == '}') {
      depth -= depth > 0 ? 1 : 0;
    } else if (inside && c == ',' && depth == 0) {
      ++count;
    } else if (inside) {
      anything = true;
    }
  }
  return anything ? count + 1 : 0;
}

}  // namespace

FunctionNames::FunctionNames(const WheelCode& code,
                             const std::vector<IndexContents::Function>& headers)
    : code_(code) {
  for (const IndexContents::Function& function : headers) {
    const auto names = template_key(function.symbol);
    if (!names) continue;
    std::vector<std::string>& symbols = in_headers_[*names];
    if (std::ranges::find(symbols, function.symbol) == symbols.end())
      symbols.push_back(function.symbol);
  }
}

void FunctionNames::add_classes(const std::vector<ParsedClass>& classes) {
  for (const ParsedClass& made : classes)
    classes_.try_emplace(qualified(made.scope, made.name), made);
}

const std::vector<std::string>* FunctionNames::of_names(const std::string& names) const {
  if (const auto* const found = code_.named(names)) return found;
  const auto found = in_headers_.find(names);
  return found == in_headers_.end() ? nullptr : &found->second;
}

std::vector<std::string> FunctionNames::overloads(const std::vector<std::string>& scope,
                                                  std::string_view name) const {
  const auto* const found = of_names(key_of(joined(scope, name)));
  return found == nullptr ? std::vector<std::string>() : *found;
}

std::string FunctionNames::symbol_of(const ParsedFunction& function) const {
  std::vector<std::string> found = overloads(function.scope, function.name);
  if (found.empty()) return key_of(joined(function.scope, function.name));
  if (found.size() > 1)
    std::erase_if(found, [&](const std::string& symbol) {
      return parameter_count(symbol) != function.parameters;
    });
  return found.size() == 1 ? found.front() : std::string();
}

std::vector<std::string> FunctionNames::visible(const std::vector<std::string>& scope,
                                                const std::vector<std::string>& used_namespaces,
                                                std::string_view name) const {
  const auto try_scope = [&](const std::vector<std::string>& around) {
    std::vector<std::string> found = overloads(around, name);
    // A member of an unnamed namespace is visible in the namespace around it.
    if (found.empty()) {
      std::vector<std::string> names = joined(around, name);
      names.insert(names.end() - 1, std::string());
      if (const auto* const unnamed = of_names(key_of(names))) found = *unnamed;
    }
    return found;
  };
  for (std::size_t size = scope.size();; --size) {
    auto found = try_scope({scope.begin(), scope.begin() + static_cast<std::ptrdiff_t>(size)});
    if (!found.empty()) return found;
    if (size == 0) break;
  }
  for (const std::string& used : used_namespaces)
    for (std::size_t size = scope.size() + 1; size-- > 0;) {
      const std::vector<std::string> around(scope.begin(),
                                            scope.begin() + static_cast<std::ptrdiff_t>(size));
      auto found = try_scope(joined(around, used));
      if (!found.empty()) return found;
    }
  return {};
}

std::vector<std::string> FunctionNames::member(const std::vector<std::string>& scope,
                                               std::string_view type, std::string_view name) const {
  return member(scope, type, name, 0);
}

std::vector<std::string> FunctionNames::member(const std::vector<std::string>& scope,
                                               std::string_view type, std::string_view name,
                                               unsigned depth) const {
  // Classes that derive from each other occur in hostile text only.
  constexpr unsigned kDeepest = 8;
  if (depth > kDeepest) return {};
  // The classes that the type can mean, from the innermost scope outwards.
  for (std::size_t size = scope.size() + 1; size-- > 0;) {
    const std::vector<std::string> around(scope.begin(),
                                          scope.begin() + static_cast<std::ptrdiff_t>(size));
    std::vector<std::string> found = overloads(joined(around, type), name);
    if (!found.empty()) return found;
    const auto known = classes_.find(qualified(around, type));
    if (known == classes_.end()) continue;
    for (const std::string& base : known->second.bases) {
      found = member(known->second.scope, base, name, depth + 1);
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace optrace
