#include "lookup/locate/cpp_lookup.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "platform/text/ascii_text.h"
#include "pytorch/source/source_files.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxCandidates = 200000;

// Returns the word to search definitions by: the last component that is a word.
std::string searched_word(const std::vector<std::string>& components) {
  for (auto part = components.rbegin(); part != components.rend(); ++part) {
    const std::string word = part->starts_with('~') ? part->substr(1) : *part;
    if (!word.empty() && std::ranges::all_of(word, is_word_character)) return word;
  }
  return {};
}

// Ranks PyTorch's namespaces by how likely a reader means them. Names in c10/ and ATen/ also occur
// in torch/csrc's bindings and in the C++ frontend.
int namespace_rank(const std::vector<std::string>& components) {
  const auto starts_with = [&](std::initializer_list<std::string_view> expected) {
    return components.size() > expected.size() &&
           std::equal(expected.begin(), expected.end(), components.begin());
  };
  if (starts_with({"at", "native"})) return 0;
  if (starts_with({"at"})) return 1;
  if (starts_with({"c10"})) return 2;
  if (starts_with({"torch"})) return 3;
  return 4;
}

int kind_rank(DefinitionKind kind) {
  switch (kind) {
    case DefinitionKind::type:
    case DefinitionKind::enumeration:
      return 0;
    case DefinitionKind::stub:
      return 1;
    case DefinitionKind::device_kernel:
      return 2;
    case DefinitionKind::function:
      break;
  }
  return 3;
}

struct Candidate {
  Definition definition;
  std::vector<std::string> components;
  NameFit fit = NameFit::none;
  bool lambda = false;

  auto rank() const {
    // A name with `_symint` is as good as one without.
    const int group = fit == NameFit::exact_symint    ? static_cast<int>(NameFit::exact)
                      : fit == NameFit::suffix_symint ? static_cast<int>(NameFit::suffix)
                                                      : static_cast<int>(fit);
    return std::tuple(group, lambda, kind_rank(definition.kind),
                      is_generated_source(definition.location.file), namespace_rank(components),
                      components.size(), definition.symbol.size(), definition.symbol,
                      definition.location.file, definition.location.line);
  }
};

// Adds the definitions with `part`, a word with its length before it, in their names.
void add_definitions_with(const Index& owner, const std::string& part,
                          const std::vector<std::string>& components,
                          std::vector<Candidate>& found) {
  for (const Definition& definition : owner.find_definitions_with(part, kMaxCandidates)) {
    // Most symbols have the word in their parameters only.
    if (!may_name(definition.symbol, part)) continue;
    Candidate candidate{definition, symbol_components(definition.symbol)};
    candidate.fit = fit(candidate.components, components);
    candidate.lambda = definition.symbol.find('#') != std::string_view::npos;
    if (candidate.fit != NameFit::none) found.push_back(std::move(candidate));
  }
}

// Returns the definitions that fit the components, each once, the best first.
std::vector<Candidate> candidates(const Index& owner, const std::vector<std::string>& components) {
  std::vector<Candidate> found;
  const std::string word = searched_word(components);
  if (word.empty()) return found;
  for (const std::string& name : {word, word + "_symint"})
    add_definitions_with(owner, fmt::format("{}{}", name.size(), name), components, found);
  // The symbol of a C function is its name.
  if (components.size() == 1)
    for (const Definition& definition : owner.find_definitions(components[0]))
      found.push_back({definition, components, NameFit::exact});
  std::ranges::sort(found,
                    [](const Candidate& a, const Candidate& b) { return a.rank() < b.rank(); });
  found.erase(std::unique(found.begin(), found.end(),
                          [](const Candidate& a, const Candidate& b) {
                            return a.definition.symbol == b.definition.symbol &&
                                   a.definition.location.file == b.definition.location.file;
                          }),
              found.end());
  return found;
}

// Keeps only the functions with the query's parameters, if there are any.
void prefer_parameters(const NameQuery& query, std::vector<Candidate>& found) {
  if (query.parameters.empty()) return;
  const auto same = [&](const Candidate& one) {
    std::string parameters = parameters_of(one.definition.symbol);
    std::erase(parameters, ' ');
    return parameters == query.parameters;
  };
  if (std::ranges::any_of(found, same))
    std::erase_if(found, [&](const Candidate& one) { return !same(one); });
}

// Removes the definitions that fit less well than the best ones. `found` must not be empty.
void keep_best(const NameQuery& query, std::vector<Candidate>& found) {
  // Use looser fits only if there is nothing better.
  const NameFit best = found.front().fit;
  const bool complete = query.components.size() > 1 && best <= NameFit::exact_symint;
  // A complete name means only that function.
  const NameFit worst = complete                         ? NameFit::exact_symint
                        : best <= NameFit::suffix_symint ? NameFit::suffix_symint
                                                         : best;
  const bool only_lambdas = found.front().lambda;
  std::erase_if(found, [&](const Candidate& one) {
    return one.fit > worst || (one.lambda && !only_lambdas);
  });
  // Generated files declare stubs again.
  std::set<std::string_view> stubs;
  std::erase_if(found, [&](const Candidate& one) {
    return one.definition.kind == DefinitionKind::stub &&
           !stubs.insert(one.definition.symbol).second;
  });
}

// Returns the definitions of a mangled name, or those of the function that a lambda is in if it
// can't be distinguished from others.
std::vector<Definition> definitions_of(const Index& owner, const std::string& mangled) {
  const auto find = [&](const std::string& name, const std::string& symbol) {
    std::vector<Definition> found = owner.find_definitions(symbol);
    if (found.empty()) found = owner.find_definitions(function_key(name));
    return found;
  };
  std::vector<Definition> found = find(mangled, canonical_symbol(mangled));
  for (auto outer = enclosing_function(mangled); found.empty() && outer;
       outer = enclosing_function(*outer))
    found = find(*outer, *outer);
  return found;
}

// A member that the compiler generates, and what it leads to: a class, or for a thunk a function.
struct ImplicitMember {
  std::string_view role;
  std::vector<std::string> class_components;
  std::string function;  // The symbol of the function that a thunk calls; else empty.
};

// Special names of the Itanium C++ ABI, which are followed by the name of a class.
struct SpecialNameRow {
  std::string_view prefix;
  std::string_view role;
};
constexpr auto kSpecialNames = std::to_array<SpecialNameRow>({
    {"_ZTV", "vtable"},
    {"_ZTT", "VTT"},
    {"_ZTI", "typeinfo"},
    {"_ZTS", "typeinfo name"},
});

// Returns the symbol of the function that a thunk calls; empty for other symbols. The name follows
// one offset, `h8_` or `v0_n24_`, in a covariant thunk (`_ZTc`) two.
std::string thunk_target(std::string_view symbol) {
  constexpr std::string_view kPrefix = "_ZT";
  if (!symbol.starts_with(kPrefix)) return {};
  symbol.remove_prefix(kPrefix.size());
  const bool covariant = symbol.starts_with('c');
  if (covariant) symbol.remove_prefix(1);
  for (int offsets = covariant ? 2 : 1; offsets > 0; --offsets) {
    if (!symbol.starts_with('h') && !symbol.starts_with('v')) return {};
    for (int numbers = symbol[0] == 'v' ? 2 : 1; numbers > 0; --numbers)
      symbol.remove_prefix(std::min(symbol.find('_'), symbol.size() - 1) + 1);
    if (symbol.empty()) return {};
  }
  return std::string("_Z").append(symbol);
}

// Returns the member that a query names, if the compiler may have generated it.
std::optional<ImplicitMember> implicit_member(const NameQuery& query) {
  const std::string_view symbol = query.text;
  std::vector<std::string> components = query.components;
  if (query.form == NameForm::mangled) {
    if (std::string function = thunk_target(symbol); !function.empty())
      return ImplicitMember{"thunk", {}, std::move(function)};
    for (const auto& [prefix, role] : kSpecialNames)
      if (symbol.starts_with(prefix))
        return ImplicitMember{
            role, symbol_components(std::string("_Z").append(symbol.substr(prefix.size()))), {}};
    components = symbol_components(symbol);
  }
  if (components.size() < 2) return std::nullopt;
  const std::string member = std::move(components.back());
  components.pop_back();
  if (member != components.back() && member != "~" + components.back() && member != "operator=")
    return std::nullopt;
  return ImplicitMember{"implicit member", std::move(components), {}};
}

}  // namespace

void CppLookup::find(const NameQuery& query, AnswerList& answers) const {
  entries_.each_index([&](const Index& owner) {
    std::vector<Candidate> found = candidates(owner, query.components);
    if (found.empty()) return;
    prefer_parameters(query, found);
    keep_best(query, found);
    for (const Candidate& one : found) add(owner, one.definition, answers);
  });
}

void CppLookup::find_pure(const NameQuery& query, AnswerList& answers) const {
  const std::string word = searched_word(query.components);
  if (word.empty() || query.components.size() < 2) return;
  const std::string part = fmt::format("{}{}", word.size(), word);
  entries_.each_index([&](const Index& owner) {
    owner.each_symbol_with(part, [&](std::string_view symbol) {
      if (!may_name(symbol, part) ||
          fit(symbol_components(symbol), query.components) > NameFit::suffix_symint ||
          owner.find_definition(symbol))
        return true;
      if (auto type = entries_.class_of(symbol)) {
        answers.add([&] {
          Located answer = entries_.undefined(symbol);
          type->role = kMemberOf;
          answer.parts.push_back(std::move(*type));
          return answer;
        });
      }
      return true;
    });
  });
}

void CppLookup::find_class_of(const NameQuery& query, AnswerList& answers) const {
  const std::optional<ImplicitMember> member = implicit_member(query);
  if (!member) return;
  AnswerList found(answers.options());
  NameQuery target;
  if (member->function.empty()) {
    target.form = NameForm::cpp;
    target.components = member->class_components;
    find(target, found);
  } else {
    target.form = NameForm::mangled;
    target.text = member->function;
    find_mangled(target, found);
  }
  for (Located& answer : found.take()) {
    // A constructor that is written in the source is not the requested one.
    if (member->function.empty() && answer.kind != LocatedKind::type) continue;
    answers.add([&] {
      Located part;
      part.role = member->role;
      part.name = query.form == NameForm::mangled ? qualified_name(query.text) : query.text;
      if (query.form == NameForm::mangled) part.symbol = query.text;
      answer.parts.insert(answer.parts.begin(), std::move(part));
      return std::move(answer);
    });
  }
}

void CppLookup::find_mangled(const NameQuery& query, AnswerList& answers) const {
  entries_.each_index([&](const Index& owner) {
    for (const Definition& definition : definitions_of(owner, query.text))
      add(owner, definition, answers);
  });
  if (answers.empty()) find_class_of(query, answers);
  if (answers.empty()) find_foreign(canonical_symbol(query.text), answers);
}

void CppLookup::find_foreign(const std::string& symbol, AnswerList& answers) const {
  const bool all = answers.options().all;
  entries_.each_index([&](const Index& owner) {
    std::vector<Located> callers = entries_.callers(owner, symbol, "called from", all);
    // C++ overloads declared in a library's header: cublasGemmEx.
    const std::string start = fmt::format("_Z{}{}", symbol.size(), symbol);
    owner.each_symbol_with(start, [&](std::string_view overload) {
      if (!overload.starts_with(start) || owner.find_definition(overload)) return true;
      for (Located& caller : entries_.callers(owner, overload, "called from", all))
        callers.push_back(std::move(caller));
      return true;
    });
    if (callers.empty()) return;
    answers.add([&] {
      Located answer;
      answer.kind = LocatedKind::foreign;
      answer.name = shown_name(symbol);
      answer.symbol = symbol;
      answer.parts = std::move(callers);
      return answer;
    });
  });
}

std::optional<Definition> CppLookup::function_called(const std::string& qualified) const {
  const NameQuery query = parse_name(qualified);
  for (const Candidate& candidate : candidates(entries_.pytorch(), query.components))
    if (candidate.fit == NameFit::exact || candidate.fit == NameFit::exact_symint)
      return candidate.definition;
  return std::nullopt;
}

std::string CppLookup::name_ending_with(const std::vector<std::string>& components) const {
  const std::vector<Candidate> found = candidates(entries_.pytorch(), components);
  if (found.empty() || found.front().fit > NameFit::suffix_symint) return {};
  return shown_name(found.front().definition.symbol);
}

void CppLookup::add(const Index& owner, const Definition& definition, AnswerList& answers) const {
  answers.add([&] {
    Located answer = entries_.located(owner, definition);
    add_parts(owner, answer, answers.options().all);
    return answer;
  });
}

void CppLookup::add_parts(const Index& owner, Located& answer, bool all) const {
  if (answer.kind == LocatedKind::stub) {
    for (const Registration& one : owner.registrations_of(answer.symbol)) {
      if (one.kind != RegistrationKind::stub) continue;
      answer.parts.push_back(entries_.registered(owner, one));
    }
  } else if (answer.kind == LocatedKind::device_kernel) {
    answer.parts = entries_.callers(owner, answer.symbol, "launched from", all);
  }
}

}  // namespace optrace
