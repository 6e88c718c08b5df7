#include "report/known_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>

#include "indexer/symbol_key.h"
#include "platform/error.h"
#include "report/layers.h"
#include "report/locate.h"
#include "report/op_spelling.h"
#include "report/symbol_name.h"
#include "tracer/path_counter.h"

namespace optrace {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Words of qualified names that mangled ones spell otherwise.
constexpr auto kUnmangled = std::to_array<std::string_view>({"std", "anonymous", "namespace"});

/// The identifiers of a pattern that every mangled name holds that it can match.
std::vector<std::string_view> words_of(std::string_view pattern) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < pattern.size();) {
    std::size_t end = at;
    while (end < pattern.size() && is_word(pattern[end])) ++end;
    const std::string_view word = pattern.substr(at, end - at);
    if (!word.empty() && std::ranges::find(kUnmangled, word) == kUnmangled.end())
      words.push_back(word);
    at = std::max(end, at + 1);
  }
  return words;
}

/// The pattern up to what only a run can tell: template arguments, lambdas, operators.
std::string statically_known(std::string_view pattern) {
  const std::size_t end =
      std::min({pattern.find('<'), pattern.find("::{"), pattern.find("::operator")});
  if (end == std::string_view::npos || end == 0) return std::string(pattern);
  return std::string(pattern.substr(0, end)) + "*";
}

/// An index has one of the functions that are compiled for each CPU capability.
std::string with_one_capability(std::string_view pattern) {
  std::string folded;
  while (true) {
    const std::size_t end = pattern.find("::");
    if (end == std::string_view::npos) return folded + std::string(pattern);
    const std::string_view part = pattern.substr(0, end);
    folded += is_cpu_capability(part) ? std::string_view("*") : part;
    folded += "::";
    pattern.remove_prefix(end + 2);
  }
}

/// `at::native::f` of `at::native::f<int>`.
std::string without_templates(std::string_view name) {
  std::string kept;
  std::size_t depth = 0;
  for (const char c : name) {
    if (c == '<') ++depth;
    if (depth == 0) kept += c;
    if (c == '>' && depth > 0) --depth;
  }
  return kept;
}

bool names_symbol(std::string_view pattern, const std::vector<std::string_view>& words,
                  std::string_view symbol) {
  const auto holds = [&](std::string_view word) {
    return symbol.find(word) != std::string_view::npos;
  };
  return std::ranges::all_of(words, holds) && names_function(pattern, qualified_name(symbol));
}

/// The library whose functions start as the pattern does, up to its first `*`.
std::string_view library_of(std::string_view pattern) {
  const std::string_view start = pattern.substr(0, std::min(pattern.find('*'), pattern.size()));
  const std::string_view library = library_name(start);
  return library == "BLAS/LAPACK" ? std::string_view() : library;
}

}  // namespace

bool names_function(std::string_view pattern, std::string_view qualified_name) {
  if (matches_op_pattern(qualified_name, pattern)) return true;
  if (qualified_name.find('<') != std::string_view::npos &&
      matches_op_pattern(without_templates(qualified_name), pattern))
    return true;
  return qualified_name.find("::") != std::string_view::npos &&
         matches_op_pattern(short_name(qualified_name), pattern);
}

bool names_op(std::string_view pattern, std::string_view op) {
  if (matches_op_pattern(op, pattern)) return true;
  const std::string_view whole = op.substr(0, op.find('.'));
  if (matches_op_pattern(whole, pattern)) return true;
  const std::size_t scope = whole.find("::");
  return scope != std::string_view::npos && matches_op_pattern(whole.substr(scope + 2), pattern);
}

bool KnownNames::any_matches(std::string_view wanted) const {
  const std::string pattern = with_one_capability(statically_known(wanted));
  const std::vector<std::string_view> words = words_of(pattern);
  // All that a library has is not known, but that there is such a library is.
  if (pattern.find('*') != std::string::npos && !library_of(pattern).empty()) return true;
  if (is_library_function(pattern)) return true;
  for (const Trace& trace : traces_) {
    for (const TraceFunction& function : trace.functions)
      if (names_symbol(pattern, words, function.symbol)) return true;
    for (const PythonFunction& function : trace.python_functions)
      if (matches_op_pattern(function.name, pattern)) return true;
    if (trace.meta.is_object() && trace.meta.contains("op_names"))
      for (const nlohmann::json& name : trace.meta["op_names"])
        if (name.is_string() && names_op(pattern, name.get_ref<const std::string&>())) return true;
  }
  if (index_ == nullptr) return false;
  for (const OpEntry& op : index_->ops())
    if (names_op(pattern, op.name)) return true;
  for (const PythonName& name : index_->python_names())
    if (matches_op_pattern(name.name, pattern)) return true;
  // Ops that no yaml has: TORCH_LIBRARY's.
  for (const Registration& registration : index_->registrations())
    if (registration.name.find("::") != std::string_view::npos &&
        names_op(pattern, registration.name))
      return true;
  if (words.empty()) return false;
  bool found = false;
  index_->each_symbol_with(
      *std::ranges::max_element(words, {}, &std::string_view::size), [&](std::string_view symbol) {
        found = symbol.find('#') == std::string_view::npos && names_symbol(pattern, words, symbol);
        return !found;
      });
  return found;
}

std::vector<std::string> KnownNames::near(std::string_view wanted, std::size_t limit) const {
  if (index_ == nullptr) return {};
  std::string pattern = statically_known(wanted);
  std::erase(pattern, '*');
  if (library_of(pattern).empty()) {
    // What is no name at all has none that is near.
    try {
      const LocateResult located = Locator(*index_).locate(pattern, {.limit = limit});
      std::vector<std::string> names = located.suggestions;
      for (const Located& answer : located.answers) names.push_back(answer.name);
      std::erase(names, wanted);
      if (names.size() > limit) names.resize(limit);
      return names;
    } catch (const Error&) {
      return {};
    }
  }
  // Functions of the same library that PyTorch calls.
  constexpr std::size_t kPrefix = 4;  // `cudn`, `cubl`, `nccl`.
  std::set<std::string> called;
  index_->each_symbol_with(pattern.substr(0, kPrefix), [&](std::string_view symbol) {
    std::string name = qualified_name(symbol);
    if (library_of(name) == library_of(pattern)) called.insert(std::move(name));
    return true;
  });
  return near_names(pattern, {called.begin(), called.end()}, limit);
}

}  // namespace optrace
