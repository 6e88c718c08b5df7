#include "pytorch/symbols/symbol_name.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

// libiberty's header has unused declarations that trigger our warnings.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include <libiberty/demangle.h>

#include "platform/text/ascii_text.h"
#pragma GCC diagnostic pop

namespace optrace {
namespace {

constexpr std::string_view kOperator = "operator";

// No wheel has longer symbols. The demangler's time and memory grow faster than linearly.
constexpr std::size_t kMaxSymbolLength = 1 << 16;

bool is_name_character(char c) {
  return is_word_character(c) || c == '$';
}

// `options` are libiberty's; without DMGL_PARAMS a function's parameters are left out.
std::optional<std::string> demangle(std::string_view symbol, int options = DMGL_ANSI) {
  if (!symbol.starts_with("_Z") || symbol.size() > kMaxSymbolLength) return std::nullopt;
  const std::string terminated(symbol);
  struct Free {
    void operator()(char* text) const {
      std::free(text);
    }  // Required by the demangler's
       // documentation.
  };
  const std::unique_ptr<char, Free> text(cplus_demangle_v3(terminated.c_str(), options));
  if (text == nullptr) return std::nullopt;
  return std::string(text.get());
}

// True if the word `operator` ends right before `at`.
bool follows_operator(std::string_view text, std::size_t at) {
  return at >= kOperator.size() &&
         text.substr(at - kOperator.size(), kOperator.size()) == kOperator &&
         (at == kOperator.size() || !is_name_character(text[at - kOperator.size() - 1]));
}

// Returns the length of the operator symbol at `at`, after the word `operator`: `<<`, `()`.
std::size_t operator_length(std::string_view text, std::size_t at) {
  constexpr std::string_view kOperators[] = {
      "<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "&&", "||",
      "++",  "--",  "==",  "!=",  "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|=", "<",
      ">",   "+",   "-",   "*",   "/",  "%",  "^",  "&",  "|",  "~",  "!",  "=",  ","};
  for (const std::string_view candidate : kOperators)
    if (text.substr(at).starts_with(candidate)) return candidate.size();
  return 0;
}

// Returns the position after the bracket that closes the one at `at`, or the end of the text.
// Brackets in operator names are skipped; a demangled name has the word `operator` before them.
std::size_t skip_bracketed(std::string_view text, std::size_t at) {
  std::size_t depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    if (follows_operator(text, i)) {
      if (const std::size_t length = operator_length(text, i); length != 0) {
        i += length - 1;
        continue;
      }
    }
    const char c = text[i];
    if (c == '(' || c == '<' || c == '[' || c == '{') {
      ++depth;
    } else if (c == ')' || c == ']' || c == '}' || (c == '>' && (i == 0 || text[i - 1] != '-'))) {
      if (--depth == 0) return i + 1;
    }
  }
  return text.size();
}

constexpr std::string_view kAnonymous = "(anonymous namespace)";

// Returns `{lambda#1}` for `{lambda(long)#1}`; `{default arg#1}` has no parameters.
std::string without_inner_parameters(std::string_view braced) {
  const std::size_t open = braced.find('(');
  const std::size_t close = braced.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || open > close)
    return std::string(braced);
  return std::string(braced.substr(0, open)).append(braced.substr(close + 1));
}

// Returns the position after the qualifiers that follow a function's parameters.
std::size_t skip_qualifiers(std::string_view text, std::size_t at) {
  constexpr auto kQualifiers =
      std::to_array<std::string_view>({" const", " volatile", " &&", " &", "&&", "&"});
  for (;;) {
    const auto* const found = std::ranges::find_if(kQualifiers, [&](std::string_view qualifier) {
      return text.substr(at).starts_with(qualifier);
    });
    if (found == kQualifiers.end()) return at;
    at += found->size();
  }
}

// Removes the return type, and the parameters and qualifiers of every function in `text`.
std::string without_parameters(std::string_view text) {
  std::string name;
  name.reserve(text.size());
  bool in_operator_word = false;  // In a conversion operator, whose spaces belong to it.
  for (std::size_t i = 0; i < text.size();) {
    const std::string_view rest = text.substr(i);
    if (follows_operator(text, i)) {
      if (const std::size_t length = operator_length(text, i); length != 0) {
        name += rest.substr(0, length);
        i += length;
        continue;
      }
      in_operator_word = rest.starts_with(' ');
    }
    const char c = text[i];
    if (rest.starts_with(kAnonymous)) {
      name += kAnonymous;
      i += kAnonymous.size();
    } else if (c == '<') {
      const std::size_t end = skip_bracketed(text, i);
      name += text.substr(i, end - i);
      i = end;
    } else if (c == '{') {
      const std::size_t end = skip_bracketed(text, i);
      name += without_inner_parameters(text.substr(i, end - i));
      i = end;
    } else if (c == '(') {
      i = skip_qualifiers(text, skip_bracketed(text, i));
    } else if (c == '[') {
      // An ABI tag, `[abi:cxx11]`, or ` [clone .isra.0]`.
      i = skip_bracketed(text, i);
      while (!name.empty() && name.back() == ' ') name.pop_back();
    } else if (c == ' ' && !in_operator_word) {
      name.clear();  // The text before a space is a return type.
      ++i;
    } else {
      if (c == ':') in_operator_word = false;
      name += c;
      ++i;
    }
  }
  return name;
}

std::string_view without_version(std::string_view symbol) {
  return symbol.substr(0, symbol.find('@'));
}

std::string_view without_clone_suffix(std::string_view symbol) {
  const std::size_t dot = symbol.find('.', 1);
  return dot == std::string_view::npos ? symbol : symbol.substr(0, dot);
}

}  // namespace

std::string qualified_name(std::string_view symbol) {
  const std::string_view plain = without_version(symbol);
  if (const std::optional<std::string> demangled = demangle(plain)) {
    std::string name = without_parameters(*demangled);
    // An empty result is a bug in without_parameters(); use the demangler's output instead.
    if (name.empty()) name = *demangled;
    return name;
  }
  return std::string(without_clone_suffix(plain));
}

std::string qualified_name_of_demangled(std::string_view demangled) {
  return demangled.size() > kMaxSymbolLength ? std::string(demangled)
                                             : without_parameters(demangled);
}

std::string parameters_of(std::string_view symbol) {
  const std::optional<std::string> demangled =
      demangle(without_version(symbol), DMGL_ANSI | DMGL_PARAMS);
  if (!demangled) return {};
  // Find the last top-level pair of parentheses; only qualifiers may follow it.
  std::size_t open = std::string::npos;
  std::size_t end = 0;
  for (std::size_t i = 0; i < demangled->size();) {
    if (follows_operator(*demangled, i)) {
      if (const std::size_t length = operator_length(*demangled, i); length != 0) {
        i += length;
        continue;
      }
    }
    const char c = (*demangled)[i];
    if (c != '(' && c != '<' && c != '{' && c != '[') {
      ++i;
      continue;
    }
    const std::size_t next = skip_bracketed(*demangled, i);
    if (c == '(' && std::string_view(*demangled).substr(i, next - i) != kAnonymous) {
      open = i;
      end = next;
    }
    i = next;
  }
  if (open == std::string::npos || demangled->find("::", end) != std::string::npos) return {};
  std::string text = demangled->substr(open, end - open);
  constexpr std::pair<std::string_view, std::string_view> kShortened[] = {
      {"std::basic_string_view<char, std::char_traits<char> >", "std::string_view"},
      {"std::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string"},
      {"> >", ">>"},
  };
  for (const auto& [from, to] : kShortened)
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
      text.replace(at, from.size(), to);
  return text;
}

std::string short_name(std::string_view name) {
  std::string text;
  text.reserve(name.size());
  for (std::size_t i = 0; i < name.size();) {
    if (follows_operator(name, i)) {
      if (const std::size_t length = operator_length(name, i); length != 0) {
        text += name.substr(i, length);
        i += length;
        continue;
      }
    }
    // Python's `f.<locals>.<lambda>` is not a template; C++ names have no dot before a `<`.
    const bool of_python = i == 0 || name[i - 1] == '.';
    if (name[i] == '<' && !of_python) {
      const std::size_t end = skip_bracketed(name, i);
      // Only the argument tells the nodes of C++ extensions apart.
      if (text.ends_with("torch::autograd::CppNode") && end > i + 2)
        text += '<' + short_name(name.substr(i + 1, end - i - 2)) + '>';
      else
        text += "<…>";
      i = end;
    } else {
      text += name[i];
      ++i;
    }
  }
  // Namespaces that most frames have, or that source code doesn't spell out.
  constexpr std::pair<std::string_view, std::string_view> kShortened[] = {
      {"(anonymous namespace)::", ""},
      {"torch::autograd::generated::", ""},
      {"torch::autograd::THP", "THP"},
      {"torch::autograd::VariableType::", "VariableType::"},
      {"torch::ADInplaceOrView::", "ADInplaceOrView::"},
      {"torch::TraceType::", "TraceType::"},
  };
  for (const auto& [from, to] : kShortened)
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at))
      text.replace(at, from.size(), to);
  return text;
}

std::string shorten_middle(std::string_view text, std::size_t width) {
  const auto is_start = [&](std::size_t i) {
    return (static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U;
  };
  std::vector<std::size_t> starts;  // Offsets of the characters.
  for (std::size_t i = 0; i < text.size(); ++i)
    if (is_start(i)) starts.push_back(i);
  if (starts.size() <= width) return std::string(text);
  if (width < 3) return std::string(text.substr(0, width < starts.size() ? starts[width] : 0));
  const std::size_t front = (width - 1) / 2;
  const std::size_t back = width - 1 - front;
  std::string shortened(text.substr(0, starts[front]));
  shortened += "…";
  shortened += text.substr(starts[starts.size() - back]);
  return shortened;
}

std::string_view unqualified_name(std::string_view name) {
  const std::size_t scope = name.rfind("::");
  return scope == std::string_view::npos ? name : name.substr(scope + 2);
}

std::string_view nested_name(std::string_view symbol) {
  if (!symbol.starts_with("_ZN")) return {};
  symbol.remove_prefix(3);
  while (!symbol.empty() && (symbol[0] == 'K' || symbol[0] == 'R' || symbol[0] == 'O'))
    symbol.remove_prefix(1);
  return symbol;
}

}  // namespace optrace
