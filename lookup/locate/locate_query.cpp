#include "lookup/locate/locate_query.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/ascii_text.h"
#include "platform/text/printable_text.h"
#include "pytorch/source/cpu_capability.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Bytes; the longest symbol of torch 2.6 has 9,000.
constexpr std::size_t kMaxQueryLength = 64 << 10;
constexpr std::string_view kSymInt = "_symint";

bool is_symbol_character(char c) {
  return is_word_character(c) || c == '$';
}

bool is_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_symbol_character);
}

std::vector<std::string> split(std::string_view text, std::string_view separator) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

// Returns `at`, `native`, `foo` for `at::native::(anonymous
// namespace)::foo<int>::{lambda#1}::operator()`.
std::vector<std::string> components_of_qualified(std::string_view name) {
  std::vector<std::string> parts;
  std::string part;
  const auto finish = [&] {
    if (!part.empty() && part != "(anonymous namespace)" && part != "_GLOBAL__N_1")
      parts.push_back(part);
    part.clear();
  };
  std::size_t depth = 0;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = name.substr(i);
    constexpr std::string_view kOperator = "operator";
    const bool starts_word = part.empty() && depth == 0;
    if (starts_word && rest.starts_with(kOperator) &&
        (rest.size() == kOperator.size() || !is_symbol_character(rest[kOperator.size()]))) {
      // Operators contain brackets, and only template arguments follow them.
      const std::size_t close = rest.find("()<");
      part = rest.substr(0, close == std::string_view::npos ? close : close + 2);
      break;
    }
    if (starts_word && rest.starts_with('{')) break;  // A lambda, and the names in it.
    if (rest.starts_with("::") && depth == 0) {
      finish();
      ++i;
      continue;
    }
    const char c = name[i];
    if (c == '<') ++depth;
    if (depth == 0) part += c;
    if (c == '>' && depth != 0) --depth;
  }
  finish();
  return parts;
}

// Returns the components of a plain nested name, without the demangler: a look-up of a single word
// compares many symbols. Returns nothing for names with templates, operators or local names.
std::optional<std::vector<std::string>> plain_components(std::string_view symbol) {
  if (!symbol.starts_with("_Z")) return std::nullopt;
  symbol.remove_prefix(2);
  if (symbol.starts_with("TI")) symbol.remove_prefix(2);
  const bool nested = symbol.starts_with('N');
  if (nested) symbol.remove_prefix(1);
  while (nested && !symbol.empty() &&
         std::string_view("rVKRO").find(symbol[0]) != std::string::npos)
    symbol.remove_prefix(1);
  std::vector<std::string> parts;
  while (!symbol.empty()) {
    if (std::isdigit(static_cast<unsigned char>(symbol[0])) != 0) {
      std::size_t length = 0;
      const auto [end, error] =
          std::from_chars(symbol.data(), symbol.data() + symbol.size(), length);
      symbol.remove_prefix(static_cast<std::size_t>(end - symbol.data()));
      if (error != std::errc() || length == 0 || length > symbol.size()) return std::nullopt;
      const std::string_view word = symbol.substr(0, length);
      symbol.remove_prefix(length);
      if (!word.starts_with("_GLOBAL__N_")) parts.emplace_back(word);
      if (!nested) break;
    } else if (symbol[0] == 'E' && nested) {
      break;
    } else if ((symbol.starts_with("C1") || symbol.starts_with("C2")) && !parts.empty()) {
      parts.push_back(parts.back());
      symbol.remove_prefix(2);
    } else if ((symbol.starts_with("D0") || symbol.starts_with("D1") || symbol.starts_with("D2")) &&
               !parts.empty()) {
      parts.push_back("~" + parts.back());
      symbol.remove_prefix(2);
    } else if (symbol.starts_with("St") && parts.empty()) {
      parts.emplace_back("std");
      symbol.remove_prefix(2);
    } else {
      return std::nullopt;
    }
  }
  // Template arguments or an ABI tag follow a name that is not nested.
  if (parts.empty() || (!nested && (symbol.starts_with('I') || symbol.starts_with('B'))))
    return std::nullopt;
  return parts;
}

// Returns the ops that a plain, dotted or C++ name can mean, if its parts are words.
std::vector<std::string> ops_meant(const NameQuery& query) {
  const auto op = [](const std::string& space, const std::string& name,
                     const std::string& overload) {
    return space + "::" + name + (overload.empty() ? "" : "." + overload);
  };
  if (query.form == NameForm::plain) {
    return is_word(query.text) ? std::vector{op("aten", query.text, "")}
                               : std::vector<std::string>();
  }
  if (query.form == NameForm::cpp) {
    const std::size_t colons = query.text.find("::");
    const std::string space = query.text.substr(0, colons);
    const auto rest = split(std::string_view(query.text).substr(colons + 2), ".");
    if (!is_word(space) || rest.size() > 2 || !std::ranges::all_of(rest, is_word)) return {};
    return {query.text};
  }
  if (query.form != NameForm::dotted) return {};
  std::vector<std::string> words = query.components;
  const bool from_python =
      words.size() > 2 && words[0] == "torch" && (words[1] == "ops" || words[1] == "_ops");
  if (from_python) words.erase(words.begin(), words.begin() + 2);
  std::vector<std::string> ops;
  if (words.size() == 2 && !from_python) ops.push_back(op("aten", words[0], words[1]));
  if (words.size() == 2) ops.push_back(op(words[0], words[1], ""));
  if (words.size() == 3) ops.push_back(op(words[0], words[1], words[2]));
  return ops;
}

constexpr const char* kNameRemedy =
    "Give a name of PyTorch, such as nn.Linear, torch.matmul, aten::add.Tensor or "
    "at::native::convolution.";

// Returns the text without white space around it. Throws Error(usage) if it can't be a name.
std::string_view checked_name(std::string_view given) {
  const std::string_view text = trimmed(given);
  if (text.empty()) throw Error(ExitStatus::usage, "no name given", kNameRemedy);
  if (text.size() > kMaxQueryLength) {
    throw Error(ExitStatus::usage,
                fmt::format("a name of {} bytes is longer than any name of PyTorch", text.size()),
                kNameRemedy);
  }
  const std::string shown = printable(text);
  if (shown != text) {
    throw Error(ExitStatus::usage,
                fmt::format("'{}' is not a name: it has characters that no name has",
                            shorten_middle(shown, 60)),
                kNameRemedy);
  }
  return text;
}

// Returns `(Tensor,int)` for `f(Tensor, int)`; empty without parameters.
std::string parameters_of(std::string_view name) {
  const std::size_t close = name.rfind(')');
  // `(anonymous namespace)` precedes a name, parameters follow it.
  if (close == std::string_view::npos || name.find("::", close) != std::string_view::npos)
    return {};
  std::size_t open = close;
  for (std::size_t depth = 0; open < name.size(); --open) {
    if (name[open] == ')') ++depth;
    if (name[open] == '(' && --depth == 0) break;
    if (open == 0) break;
  }
  std::string parameters;
  for (const char c : name.substr(open, close + 1 - open))
    if (c != ' ') parameters += c;
  return parameters;
}

NameQuery parse_cpp_name(std::string_view text) {
  NameQuery query;
  query.text = text;
  query.form = NameForm::cpp;
  std::string_view name = text;
  if (name.starts_with("::")) name.remove_prefix(2);
  query.components = components_of_qualified(qualified_name_of_demangled(name));
  // An index contains only one of the functions that are compiled for each CPU capability.
  for (std::size_t at = 0; at + 1 < query.components.size(); ++at)
    if (is_cpu_capability(query.components[at])) query.components[at] = kBaselineCapability;
  query.parameters = parameters_of(name);
  query.ops = ops_meant(query);
  if (query.components.empty() && query.ops.empty()) {
    throw Error(ExitStatus::usage, fmt::format("'{}' is not a C++ name", shorten_middle(text, 60)),
                kNameRemedy);
  }
  return query;
}

// `torch.matmul()`, `add(at::Tensor const&)` without a namespace.
NameQuery parse_plain_or_dotted_name(std::string_view text) {
  NameQuery query;
  query.text = text;
  const std::string_view name = trimmed(text.substr(0, text.find('(')));
  query.form = name.find('.') == std::string_view::npos ? NameForm::plain : NameForm::dotted;
  query.components = query.form == NameForm::plain
                         ? components_of_qualified(qualified_name_of_demangled(text))
                         : split(name, ".");
  if (query.form == NameForm::plain && query.components.size() == 1)
    query.text = query.components[0];
  if (query.form == NameForm::dotted) query.text = name;
  if (query.components.empty() ||
      std::ranges::any_of(query.components, [](const std::string& part) { return part.empty(); })) {
    throw Error(ExitStatus::usage, fmt::format("'{}' is not a name", shorten_middle(text, 60)),
                kNameRemedy);
  }
  query.ops = ops_meant(query);
  return query;
}

}  // namespace

NameQuery parse_name(std::string_view given) {
  const std::string_view text = checked_name(given);
  if (text.starts_with("_Z")) {
    NameQuery query;
    query.text = text;
    query.form = NameForm::mangled;
    return query;
  }
  return text.find("::") == std::string_view::npos ? parse_plain_or_dotted_name(text)
                                                   : parse_cpp_name(text);
}

std::vector<std::string> python_spellings(const NameQuery& query) {
  if (query.form != NameForm::plain && query.form != NameForm::dotted) return {};
  const std::string& name = query.text;
  std::vector<std::string> spellings;
  if (name.starts_with("F.")) spellings.push_back("torch.nn.functional." + name.substr(2));
  // Prefixes that a user's `from torch import ...` may remove.
  for (const std::string_view prefix :
       {"", "torch.", "torch.nn.", "torch.nn.functional.", "torch.Tensor.", "torch.optim.",
        "torch.optim.lr_scheduler.", "torch.utils.", "torch.utils.data."})
    spellings.push_back(std::string(prefix) + name);
  return spellings;
}

std::vector<std::string> symbol_components(std::string_view symbol) {
  // A lambda's key (symbol_key.h) is its function's key, `Ul`, and more.
  if (const std::size_t hash = symbol.find('#'); hash != std::string_view::npos)
    symbol = symbol.substr(0, symbol.rfind("Ul", hash));
  if (auto parts = plain_components(symbol)) return *parts;
  if (!symbol.starts_with("_Z")) return {std::string(symbol)};
  return components_of_qualified(qualified_name(symbol));
}

bool may_name(std::string_view symbol, std::string_view part) {
  if (!symbol.starts_with("_ZN")) return true;
  for (std::string_view rest = symbol.substr(3); !rest.empty();) {
    if (std::isdigit(static_cast<unsigned char>(rest[0])) == 0) {
      // Parameters follow an `E`; anything else may contain more of the name.
      return rest[0] != 'E' || rest.find("Ul") != std::string_view::npos;
    }
    if (rest.starts_with(part)) return true;
    std::size_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (error != std::errc() || length > rest.size()) return true;
    rest.remove_prefix(length);
  }
  return false;
}

NameFit fit(const std::vector<std::string>& symbol, const std::vector<std::string>& query) {
  if (query.empty() || symbol.empty()) return NameFit::none;
  const auto ends_with = [&](const std::vector<std::string>& parts, bool symint) {
    if (parts.size() < query.size()) return false;
    const auto same_last =
        symint ? parts.back() == query.back() + std::string(kSymInt) : parts.back() == query.back();
    return same_last && std::equal(query.rbegin() + 1, query.rend(), parts.rbegin() + 1);
  };
  const bool whole = symbol.size() == query.size();
  if (ends_with(symbol, false)) return whole ? NameFit::exact : NameFit::suffix;
  if (ends_with(symbol, true)) return whole ? NameFit::exact_symint : NameFit::suffix_symint;
  if (symbol.back() == query.back()) {
    auto next = query.begin();
    for (const std::string& part : symbol)
      if (next != query.end() && part == *next) ++next;
    if (next == query.end()) return NameFit::scattered;
  }
  const std::vector<std::string> parent(symbol.begin(), symbol.end() - 1);
  if (!parent.empty() && ends_with(parent, false)) return NameFit::member;
  return NameFit::none;
}

}  // namespace optrace
