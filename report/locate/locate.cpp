#include "report/locate/locate.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "indexer/store/symbol_key.h"
#include "report/locate/locate_query.h"
#include "report/locate/op_spelling.h"
#include "report/model/source_link.h"
#include "report/model/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxCandidates = 200000;
constexpr std::size_t kMaxCallers = 8;  // Limit unless all are requested.
constexpr std::size_t kSuggestions = 5;
constexpr std::size_t kMaxAliasDepth = 16;
constexpr std::string_view kBinding = "THPVariable_";

constexpr std::array<std::string_view, 11> kKindNames = {
    "python module", "python class",  "python function", "python builtin", "op",
    "function",      "device kernel", "class",           "stub",           "library function",
    "enumeration"};

LocatedKind kind_of(DefinitionKind kind) {
  switch (kind) {
    case DefinitionKind::device_kernel:
      return LocatedKind::device_kernel;
    case DefinitionKind::type:
      return LocatedKind::type;
    case DefinitionKind::stub:
      return LocatedKind::stub;
    case DefinitionKind::enumeration:
      return LocatedKind::enumeration;
    case DefinitionKind::function:
      break;
  }
  return LocatedKind::function;
}

LocatedKind kind_of(PythonKind kind) {
  switch (kind) {
    case PythonKind::module_:
      return LocatedKind::python_module;
    case PythonKind::class_:
      return LocatedKind::python_class;
    case PythonKind::builtin:
      return LocatedKind::python_builtin;
    case PythonKind::function:
    case PythonKind::alias:
      break;
  }
  return LocatedKind::python_function;
}

// Returns `at::native::foo` for a symbol, and `at::native::foo::{lambda}` for a lambda's key.
std::string shown_name(std::string_view symbol) {
  const std::size_t hash = symbol.find('#');
  if (hash == std::string_view::npos) return qualified_name(symbol);
  return qualified_name(symbol.substr(0, symbol.rfind("Ul", hash))) + "::{lambda}";
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  return fmt::format("{}", fmt::join(parts, separator));
}

// Returns the word to search definitions by: the last component that is a word.
std::string searched_word(const std::vector<std::string>& components) {
  for (auto part = components.rbegin(); part != components.rend(); ++part) {
    const std::string word = part->starts_with('~') ? part->substr(1) : *part;
    if (!word.empty() && std::all_of(word.begin(), word.end(), [](char c) {
          return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
        }))
      return word;
  }
  return {};
}

// Ranks PyTorch's namespaces by how likely a reader means them. Names in c10/ and ATen/ also occur
// in torch/csrc's bindings and in the C++ frontend.
int namespace_rank(const std::vector<std::string>& components) {
  const auto starts_with = [&](std::initializer_list<std::string_view> wanted) {
    return components.size() > wanted.size() &&
           std::equal(wanted.begin(), wanted.end(), components.begin());
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

// Ranks the most common devices first.
int key_rank(std::string_view keys) {
  if (keys.starts_with("CPU")) return 0;
  if (keys.starts_with("CUDA")) return 1;
  if (keys.starts_with("Composite")) return 2;
  return 3;
}

// Returns true for an op that writes to `out`. Few users look for these.
bool is_out_variant(std::string_view name) {
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && name.substr(dot).find("out") != std::string_view::npos;
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

}  // namespace

std::string_view name_of(LocatedKind kind) {
  return kKindNames.at(static_cast<std::size_t>(kind));
}

struct Locator::State {
  State(const Index& pytorch, std::vector<const Index*> extensions, const WheelSymbols* symbols)
      : index(pytorch), projects(std::move(extensions)), wheel(symbols) {}

  // Only the files of PyTorch's own index are in its repository.
  SourceLink link_of(const Index& owner) const {
    return &owner == &index ? SourceLink(owner.git_version(), owner.torch_version()) : SourceLink();
  }

  template <typename Visit>
  void each_index(Visit visit) const {
    visit(index);
    for (const Index* const project : projects) visit(*project);
  }

  void place(Located& located, const Index& owner, const SourceLocation& location) const {
    located.file = location.file;
    located.line = location.line;
    if (!located.file.empty()) located.url = link_of(owner).of_native(location.file, location.line);
  }

  Located located(const Index& owner, const Definition& definition) const {
    Located result;
    result.kind = kind_of(definition.kind);
    result.name = shown_name(definition.symbol);
    if (result.kind == LocatedKind::function || result.kind == LocatedKind::device_kernel)
      result.parameters = parameters_of(definition.symbol);
    result.symbol = definition.symbol;
    place(result, owner, definition.location);
    return result;
  }

  // ---- C++ ----

  std::vector<Candidate> candidates(const Index& owner,
                                    const std::vector<std::string>& components) const {
    std::vector<Candidate> found;
    const std::string word = searched_word(components);
    if (word.empty()) return found;
    std::vector<std::string> parts = {fmt::format("{}{}", word.size(), word)};
    const std::string symint = word + "_symint";
    parts.push_back(fmt::format("{}{}", symint.size(), symint));
    for (const std::string& part : parts) {
      for (const Definition& definition : owner.find_definitions_with(part, kMaxCandidates)) {
        // Most symbols have the word in their parameters only.
        if (!may_name(definition.symbol, part)) continue;
        Candidate candidate{definition, symbol_components(definition.symbol)};
        candidate.fit = fit(candidate.components, components);
        candidate.lambda = definition.symbol.find('#') != std::string_view::npos;
        if (candidate.fit != NameFit::none) found.push_back(std::move(candidate));
      }
    }
    // The symbol of a C function is its name.
    if (components.size() == 1)
      for (const Definition& definition : owner.find_definitions(components[0]))
        found.push_back({definition, components, NameFit::exact});
    std::sort(found.begin(), found.end(),
              [](const Candidate& a, const Candidate& b) { return a.rank() < b.rank(); });
    found.erase(std::unique(found.begin(), found.end(),
                            [](const Candidate& a, const Candidate& b) {
                              return a.definition.symbol == b.definition.symbol &&
                                     a.definition.location.file == b.definition.location.file;
                            }),
                found.end());
    return found;
  }

  // Returns the best definition of a function with that qualified name.
  std::optional<Definition> function_called(const std::string& qualified) const {
    const NameQuery query = parse_name(qualified);
    for (const Candidate& candidate : candidates(index, query.components))
      if (candidate.fit == NameFit::exact || candidate.fit == NameFit::exact_symint)
        return candidate.definition;
    return std::nullopt;
  }

  std::vector<Located> callers(const Index& owner, std::string_view symbol, std::string_view role,
                               bool all) const {
    std::vector<Located> found;
    std::set<std::pair<std::string, std::uint32_t>> seen;
    for (const Caller& caller : owner.callers_of(symbol)) {
      // A lambda's calls are also listed as its function's.
      if (caller.function.symbol.find('#') != std::string_view::npos) continue;
      Located one = located(owner, caller.function);
      one.role = role;
      place(one, owner, {caller.function.location.file, caller.line});
      if (!seen.emplace(one.file, one.line).second) continue;
      found.push_back(std::move(one));
      if (!all && found.size() == kMaxCallers) break;
    }
    return found;
  }

  void add_parts(const Index& owner, Located& answer, bool all) const {
    if (answer.kind == LocatedKind::stub) {
      for (const Registration& one : owner.registrations_of(answer.symbol)) {
        if (one.kind != RegistrationKind::stub) continue;
        answer.parts.push_back(registered(owner, one));
      }
    } else if (answer.kind == LocatedKind::device_kernel) {
      answer.parts = callers(owner, answer.symbol, "launched from", all);
    }
  }

  // Returns the function that a registration names, or the registration's place if no index has the
  // function.
  Located registered(const Index& owner, const Registration& registration) const {
    Located part;
    if (const auto definition = owner.find_definition(registration.function)) {
      part = located(owner, *definition);
    } else {
      part.name = registration.function.empty() ? "fallthrough" : shown_name(registration.function);
      part.symbol = registration.function;
      place(part, owner, registration.location);
    }
    part.role = "kernel";
    part.key = registration.key;
    return part;
  }

  void find_cpp(const NameQuery& query, const LocateOptions& options, LocateResult& result) const {
    each_index([&](const Index& owner) {
      std::vector<Candidate> found = candidates(owner, query.components);
      if (found.empty()) return;
      if (!query.parameters.empty()) {
        const auto same = [&](const Candidate& one) {
          std::string parameters = parameters_of(one.definition.symbol);
          std::erase(parameters, ' ');
          return parameters == query.parameters;
        };
        if (std::any_of(found.begin(), found.end(), same))
          std::erase_if(found, [&](const Candidate& one) { return !same(one); });
      }
      // Use looser fits only if there is nothing better.
      const NameFit best = found.front().fit;
      const NameFit worst = best <= NameFit::suffix_symint ? NameFit::suffix_symint : best;
      const bool only_lambdas = found.front().lambda;
      std::set<std::string_view> stubs;
      for (const Candidate& one : found) {
        if (one.fit > worst || (one.lambda && !only_lambdas)) continue;
        // A complete name means only that function.
        if (query.components.size() > 1 && best <= NameFit::exact_symint &&
            one.fit > NameFit::exact_symint)
          continue;
        // Generated files declare stubs again.
        if (one.definition.kind == DefinitionKind::stub &&
            !stubs.insert(one.definition.symbol).second)
          continue;
        add(result, options, [&] {
          Located answer = located(owner, one.definition);
          add_parts(owner, answer, options.all);
          return answer;
        });
      }
    });
  }

  // Constructors and destructors that the compiler generates are in no source; the answer is their
  // class.
  void find_class_of(const NameQuery& query, const LocateOptions& options,
                     LocateResult& result) const {
    NameQuery owner = query;
    if (owner.components.size() < 2) return;
    const std::string member = std::move(owner.components.back());
    owner.components.pop_back();
    if (member == owner.components.back() || member == "~" + owner.components.back())
      find_cpp(owner, options, result);
  }

  void find_mangled(const NameQuery& query, const LocateOptions& options,
                    LocateResult& result) const {
    const std::string symbol = canonical_symbol(query.text);
    each_index([&](const Index& owner) {
      std::vector<Definition> found = owner.find_definitions(symbol);
      if (found.empty()) found = owner.find_definitions(function_key(query.text));
      // A lambda that can't be distinguished from others: use its function.
      for (auto outer = enclosing_function(query.text); found.empty() && outer;
           outer = enclosing_function(*outer)) {
        found = owner.find_definitions(*outer);
        if (found.empty()) found = owner.find_definitions(function_key(*outer));
      }
      for (const Definition& definition : found) {
        add(result, options, [&] {
          Located answer = located(owner, definition);
          add_parts(owner, answer, options.all);
          return answer;
        });
      }
    });
    if (result.answers.empty()) find_foreign(symbol, options, result);
  }

  // Finds functions that PyTorch calls but does not define: those of cuDNN, MKL, the C library.
  void find_foreign(const std::string& symbol, const LocateOptions& options,
                    LocateResult& result) const {
    each_index([&](const Index& owner) {
      std::vector<Located> callers_found = callers(owner, symbol, "called from", options.all);
      // C++ overloads declared in a library's header: cublasGemmEx.
      const std::string start = fmt::format("_Z{}{}", symbol.size(), symbol);
      owner.each_symbol_with(start, [&](std::string_view overload) {
        if (!overload.starts_with(start) || owner.find_definition(overload)) return true;
        for (Located& caller : callers(owner, overload, "called from", options.all))
          callers_found.push_back(std::move(caller));
        return true;
      });
      if (callers_found.empty()) return;
      add(result, options, [&] {
        Located answer;
        answer.kind = LocatedKind::foreign;
        answer.name = shown_name(symbol);
        answer.symbol = symbol;
        answer.parts = std::move(callers_found);
        return answer;
      });
    });
  }

  // Finds symbols that a library of the wheel defines or imports, from any source.
  void find_in_wheel(const NameQuery& query, const LocateOptions& options,
                     LocateResult& result) const {
    if (wheel == nullptr) return;
    for (const WheelSymbol& one : wheel->find(query, options.limit)) {
      add(result, options, [&] {
        Located answer;
        answer.kind = LocatedKind::foreign;
        answer.name = shown_name(one.symbol);
        answer.parameters = parameters_of(one.symbol);
        answer.symbol = one.symbol;
        answer.library = one.library.empty() ? one.imported_by : one.library;
        return answer;
      });
    }
  }

  template <typename Make>
  static void add(LocateResult& result, const LocateOptions& options, Make make) {
    ++result.total;
    if (options.all || result.answers.size() < options.limit) result.answers.push_back(make());
  }

  // ---- ops ----

  const std::vector<OpEntry>& ops() {
    if (!all_ops) {
      all_ops = index.ops();
      std::stable_sort(all_ops->begin(), all_ops->end(), [](const OpEntry& a, const OpEntry& b) {
        return a.location.line < b.location.line;
      });
    }
    return *all_ops;
  }

  // Returns the overloads of `aten::add`: the one without a name first, out variants last, all
  // others in the yaml's order.
  std::vector<OpEntry> overloads(std::string_view packet) {
    std::vector<OpEntry> found;
    for (const OpEntry& op : ops()) {
      if (!op.name.starts_with(packet)) continue;
      const std::string_view rest = op.name.substr(packet.size());
      if (rest.empty())
        found.insert(found.begin(), op);
      else if (rest.front() == '.')
        found.push_back(op);
    }
    std::stable_partition(found.begin(), found.end(),
                          [](const OpEntry& op) { return !is_out_variant(op.name); });
    return found;
  }

  // Returns the function of that name that a wrapper generated by torchgen
  // (`wrapper_CPU__convolution`) calls.
  std::optional<Definition> called_by(std::string_view wrapper,
                                      const std::string& qualified) const {
    const std::vector<std::string> wanted = parse_name(qualified).components;
    for (const CallSite& call : index.calls_of(wrapper)) {
      const NameFit found = fit(symbol_components(call.callee), wanted);
      if (found != NameFit::exact && found != NameFit::exact_symint) continue;
      if (auto definition = index.find_definition(call.callee)) return definition;
    }
    return std::nullopt;
  }

  Located kernel(const OpFacts::Kernel& fact,
                 const std::vector<Registration>& registrations) const {
    Located part;
    part.role = "kernel";
    part.key = fact.key;
    // A structured kernel is a class; TORCH_IMPL_FUNC defines its impl().
    part.name = fact.structured ? fact.name + "::impl" : fact.name;
    std::optional<Definition> definition;
    for (const Registration& one : registrations) {
      if (one.kind != RegistrationKind::kernel || one.key != fact.key || definition) continue;
      definition = called_by(one.function, part.name);
    }
    if (!definition) definition = function_called(part.name);
    if (definition) {
      part = located(index, *definition);
      part.role = "kernel";
      part.key = fact.key;
    }
    return part;
  }

  // Adds a kernel. Kernels with the same function become one part, with all of their keys.
  static void add_kernel(std::vector<Located>& parts, Located one) {
    for (Located& other : parts) {
      if (other.role == one.role && other.name == one.name && other.symbol == one.symbol &&
          other.file == one.file && other.line == one.line) {
        other.key += ", " + one.key;
        return;
      }
    }
    parts.push_back(std::move(one));
  }

  std::vector<Located> kernels(const OpEntry& op, const OpFacts& facts) const {
    std::vector<Located> parts;
    if (!facts.structured_delegate.empty()) {
      // Its kernels are generated around those of the op that it delegates to.
      if (const auto delegate = index.find_op(facts.structured_delegate)) {
        const std::vector<Registration> others = index.registrations_of(delegate->name);
        for (const OpFacts::Kernel& fact : index.facts_of(*delegate).kernels)
          if (fact.structured) add_kernel(parts, kernel(fact, others));
      }
    }
    const std::vector<Registration> registrations = index.registrations_of(op.name);
    for (const OpFacts::Kernel& fact : facts.kernels)
      add_kernel(parts, kernel(fact, registrations));
    if (parts.empty())
      for (const Registration& one : registrations)
        if (one.kind == RegistrationKind::kernel) add_kernel(parts, registered(index, one));
    std::stable_sort(parts.begin(), parts.end(), [](const Located& a, const Located& b) {
      return std::pair(a.file.empty(), key_rank(a.key)) <
             std::pair(b.file.empty(), key_rank(b.key));
    });
    return parts;
  }

  Located located(const OpEntry& op) const {
    Located answer;
    answer.kind = LocatedKind::op;
    answer.name = op.name;
    place(answer, index, op.location);
    const OpFacts facts = index.facts_of(op);
    answer.parts = kernels(op, facts);
    return answer;
  }

  bool is_autogenerated(const OpEntry& op) const {
    return !index.facts_of(op).autogenerated_from.empty();
  }

  // Finds ops that no yaml declares, by their TORCH_LIBRARY declarations or implementations.
  // `family` also finds the overloads of a name without one, which requires a search of all
  // registrations.
  void find_registered(const std::string& name, bool family, const LocateOptions& options,
                       LocateResult& result) const {
    each_index([&](const Index& owner) {
      std::set<std::string> names;
      if (!owner.registrations_of(name).empty()) names.insert(name);
      if (family && name.find('.') == std::string::npos)
        for (const Registration& one : owner.registrations())
          if (one.kind != RegistrationKind::stub && one.name.size() > name.size() &&
              one.name.starts_with(name) && one.name[name.size()] == '.')
            names.emplace(one.name);
      for (const std::string& full : names) {
        add(result, options, [&] {
          Located answer;
          answer.kind = LocatedKind::op;
          answer.name = full;
          for (const Registration& one : owner.registrations_of(full)) {
            if (one.kind == RegistrationKind::definition) {
              place(answer, owner, one.location);
              if (one.function.empty()) continue;
            }
            add_kernel(answer.parts, registered(owner, one));
          }
          return answer;
        });
      }
    });
  }

  void find_ops(const NameQuery& query, const LocateOptions& options, LocateResult& result) {
    std::set<std::string> seen;
    const auto take = [&](const OpEntry& op) {
      if (!seen.emplace(op.name).second) return;
      add(result, options, [&] { return located(op); });
    };
    for (std::string name : query.ops) {
      bool default_overload = false;
      if (name.ends_with(".default")) {
        name.erase(name.size() - std::string_view(".default").size());
        default_overload = true;
      }
      const std::size_t dot = name.find('.');
      const std::vector<OpEntry> family = overloads(name.substr(0, dot));
      const std::size_t before = result.total;
      for (const OpEntry& op : family) {
        if (dot != std::string::npos || default_overload) {
          if (op.name == name) take(op);
        } else if (options.all || op.name == name || !is_autogenerated(op)) {
          take(op);
        }
      }
      if (result.total == before) find_registered(name, false, options, result);
    }
    // `add_Tensor`, as in at::_ops::add_Tensor.
    if (query.form == NameForm::plain && result.total == 0)
      if (const auto op = index.find_op(query.text)) take(*op);
  }

  void find_registered_families(const NameQuery& query, const LocateOptions& options,
                                LocateResult& result) const {
    for (const std::string& name : query.ops) find_registered(name, true, options, result);
  }

  // ---- Python ----

  // Returns the position of the `.forward` or `.<locals>.inner` at the end of a name; npos if it
  // has neither.
  static std::size_t start_of_attribute(std::string_view name) {
    constexpr std::string_view kLocals = ".<locals>";
    const std::size_t dot = name.rfind('.');
    const bool local = dot != std::string_view::npos && name.substr(0, dot).ends_with(kLocals);
    return local ? dot - kLocals.size() : dot;
  }

  std::optional<PythonName> find_python(const std::string& name, std::size_t depth = 0) const {
    if (depth > kMaxAliasDepth) return std::nullopt;
    // A comprehension, a lambda, or a module's own code: its line is that of the enclosing object.
    if (name.ends_with('>')) {
      const std::size_t end = start_of_attribute(name);
      return end == std::string::npos ? std::nullopt : find_python(name.substr(0, end), depth + 1);
    }
    if (auto known = index.find_python_name(name)) {
      if (known->kind != PythonKind::alias) return known;
      return known->target == name ? std::nullopt
                                   : find_python(std::string(known->target), depth + 1);
    }
    const std::size_t dot = start_of_attribute(name);
    if (dot == std::string::npos || dot == 0) return std::nullopt;
    const auto owner = find_python(name.substr(0, dot), depth + 1);
    if (!owner) return std::nullopt;
    const std::string attribute = name.substr(dot);
    if (owner->name != std::string_view(name).substr(0, dot))
      if (auto found = find_python(std::string(owner->name) + attribute, depth + 1)) return found;
    return owner->kind == PythonKind::class_ ? inherited(*owner, attribute, depth + 1)
                                             : std::nullopt;
  }

  // Returns the objects with that spelling. `torch.nn.utils.weight_norm` is a module, and also the
  // function in it that the package imports under the same name.
  std::vector<PythonName> python_names_of(const std::string& spelling) const {
    std::vector<PythonName> names;
    if (const auto found = find_python(spelling)) names.push_back(*found);
    if (names.empty() || names[0].kind != PythonKind::module_) return names;
    const std::string module(names[0].name);
    if (const auto same = find_python(module + module.substr(module.rfind('.') + 1).insert(0, ".")))
      names.push_back(*same);
    return names;
  }

  // `attribute` starts with its dot.
  std::optional<PythonName> inherited(const PythonName& of, const std::string& attribute,
                                      std::size_t depth) const {
    std::string_view bases = of.target;
    while (!bases.empty()) {
      const std::string base(bases.substr(0, bases.find(',')));
      bases.remove_prefix(std::min(base.size() + 1, bases.size()));
      if (auto found = find_python(base + attribute, depth + 1)) return found;
    }
    return std::nullopt;
  }

  Located binding(const PythonName& name) const {
    Located part;
    if (const auto definition = index.find_definition(name.target)) {
      part = located(index, *definition);
    } else {
      part.name = shown_name(name.target);
      part.symbol = name.target;
      place(part, index, name.location);
    }
    part.role = "binding";
    return part;
  }

  // `with_ops` adds the ops of a binding. It is false if these are answers of their own.
  Located located(const PythonName& name, bool with_ops) {
    Located answer;
    answer.kind = kind_of(name.kind);
    answer.name = name.name;
    if (name.kind != PythonKind::builtin) {
      answer.file = name.location.file;
      answer.line = name.location.line;
      answer.url = link_of(index).of_python(name.location.file, name.location.line);
      return answer;
    }
    place(answer, index, name.location);
    if (name.target.empty()) return answer;
    answer.parts.push_back(binding(name));
    const Located& bound = answer.parts.back();
    answer.file = bound.file;
    answer.line = bound.line;
    answer.url = bound.url;
    const std::string function = bound.name.substr(bound.name.rfind(':') + 1);
    if (!with_ops || !function.starts_with(kBinding)) return answer;
    for (const OpEntry& op : overloads("aten::" + function.substr(kBinding.size()))) {
      if (is_autogenerated(op)) continue;
      answer.parts.push_back(located(op));
      answer.parts.back().role = "op";
    }
    return answer;
  }

  // Python names a method bound by pybind11 by module and name, without its class:
  // `torch._C._distributed_c10d.allreduce`. Classes of torch._C may be indexed under torch.
  static bool is_bound_method(const PythonName& name, const NameQuery& query) {
    constexpr std::string_view kBound = "torch._C.";
    if (name.kind != PythonKind::builtin || !query.text.starts_with(kBound)) return false;
    const std::size_t dot = name.name.rfind('.');
    const std::string_view owner = name.name.substr(0, dot);
    const std::size_t last = query.text.rfind('.');
    if (name.name.substr(dot) != std::string_view(query.text).substr(last)) return false;
    const std::string_view module = owner.substr(0, owner.rfind('.'));
    return module == std::string_view(query.text).substr(0, last) ||
           (module == "torch" && last + 1 == kBound.size());
  }

  void find_python_names(const NameQuery& query, bool with_ops, const LocateOptions& options,
                         LocateResult& result) {
    std::set<std::string_view> seen;
    const auto take = [&](const PythonName& name) {
      if (!seen.insert(name.name).second) return;
      add(result, options, [&] { return located(name, with_ops); });
    };
    for (const std::string& spelling : python_spellings(query)) {
      const std::vector<PythonName> found = python_names_of(spelling);
      for (const PythonName& name : found) take(name);
      // A dotted path means the object at that path, not others with the same last name.
      if (!found.empty() && query.form == NameForm::dotted) return;
    }
    if (!seen.empty() || query.form == NameForm::mangled || query.form == NameForm::cpp) return;
    const std::string ending = "." + query.text;
    std::vector<PythonName> others;
    for (const PythonName& name : python_names())
      if (name.kind != PythonKind::alias &&
          (name.name.ends_with(ending) || is_bound_method(name, query)))
        others.push_back(name);
    std::sort(others.begin(), others.end(), [](const PythonName& a, const PythonName& b) {
      return std::tuple(a.name.size(), a.name) < std::tuple(b.name.size(), b.name);
    });
    for (const PythonName& name : others) take(name);
  }

  const std::vector<PythonName>& python_names() {
    if (!all_python_names) all_python_names = index.python_names();
    return *all_python_names;
  }

  // ---- near misses ----

  // Maps each last word of a name to the best name that ends with it.
  const std::map<std::string, std::string>& words() {
    if (!all_words) {
      all_words.emplace();
      const auto offer = [&](std::string_view word, std::string full) {
        if (word.empty()) return;
        std::string& kept = (*all_words)[std::string(word)];
        if (kept.empty() || full.size() < kept.size()) kept = std::move(full);
      };
      for (const PythonName& name : python_names())
        offer(name.name.substr(name.name.rfind('.') + 1), std::string(name.name));
      for (const OpEntry& op : ops()) {
        const OpName parts = split_op_name(op.name);
        if (!all_words->contains(parts.base)) offer(parts.base, parts.packet());
      }
      each_index([&](const Index& owner) {
        owner.each_definition([&](const Definition& definition) {
          if (definition.symbol.find('#') != std::string_view::npos) return;
          const auto components = symbol_components(definition.symbol);
          if (components.empty() || all_words->contains(components.back())) return;
          offer(components.back(), joined(components, "::"));
        });
      });
    }
    return *all_words;
  }

  std::vector<std::string> suggestions(const NameQuery& query) {
    if (query.components.empty()) return {};
    std::vector<std::string> found;
    // For a method or member of a known class or module, suggest others in the same place.
    if (query.components.size() > 1 && query.form == NameForm::dotted) {
      std::vector<std::string> siblings;
      const std::size_t dot = query.text.rfind('.');
      NameQuery parent = query;
      parent.text = query.text.substr(0, dot);
      for (const std::string& spelling : python_spellings(parent)) {
        const auto owner = find_python(spelling);
        if (!owner) continue;
        const std::string prefix = std::string(owner->name) + ".";
        for (const PythonName& name : python_names())
          if (name.name.starts_with(prefix) &&
              name.name.find('.', prefix.size()) == std::string_view::npos)
            siblings.emplace_back(name.name.substr(prefix.size()));
        if (!siblings.empty()) break;
      }
      for (const std::string& name : near_names(query.components.back(), siblings, kSuggestions))
        found.push_back(parent.text + "." + name);
    }
    if (!found.empty()) return found;
    std::vector<std::string> last_words;
    for (const auto& [word, full] : words()) last_words.push_back(word);
    if (query.form == NameForm::cpp) {
      // Try the same namespaces with another last word.
      NameQuery other = query;
      for (const std::string& word :
           near_names(query.components.back(), last_words, 4 * kSuggestions)) {
        other.components.back() = word;
        for (const Candidate& one : candidates(index, other.components)) {
          if (one.fit > NameFit::suffix_symint) break;
          found.push_back(shown_name(one.definition.symbol));
          break;
        }
        if (found.size() == kSuggestions) return found;
      }
    }
    if (!found.empty()) return found;
    // Any component of a path may be misspelt; the last one is the most significant.
    std::set<std::string> seen;
    for (auto part = query.components.rbegin(); part != query.components.rend(); ++part) {
      if (found.size() == kSuggestions) break;
      const bool last = part == query.components.rbegin();
      // The correct word in the wrong place is also a suggestion.
      for (const std::string& word : near_names(*part, last_words, kSuggestions)) {
        if (!last && word == *part) continue;
        const std::string& full = words().at(word);
        if (found.size() < kSuggestions && seen.insert(full).second) found.push_back(full);
      }
    }
    return found;
  }

  const Index& index;
  std::vector<const Index*> projects;
  const WheelSymbols* wheel;
  std::optional<std::vector<OpEntry>> all_ops;
  std::optional<std::vector<PythonName>> all_python_names;
  std::optional<std::map<std::string, std::string>> all_words;
};

Locator::Locator(const Index& index, std::vector<const Index*> projects, const WheelSymbols* wheel)
    : state_(std::make_unique<State>(index, std::move(projects), wheel)) {}

Locator::~Locator() = default;

LocateResult Locator::locate(std::string_view name, const LocateOptions& options) {
  const NameQuery query = parse_name(name);
  LocateResult result;
  result.query = query.text;
  switch (query.form) {
    case NameForm::mangled:
      state_->find_mangled(query, options, result);
      break;
    case NameForm::cpp:
      state_->find_ops(query, options, result);
      if (result.total == 0) state_->find_cpp(query, options, result);
      if (result.total == 0) state_->find_registered_families(query, options, result);
      if (result.total == 0) state_->find_class_of(query, options, result);
      break;
    case NameForm::dotted:
      state_->find_python_names(query, true, options, result);
      if (result.total == 0) state_->find_ops(query, options, result);
      if (result.total == 0) state_->find_registered_families(query, options, result);
      break;
    case NameForm::plain: {
      state_->find_ops(query, options, result);
      const bool is_op = result.total != 0;
      state_->find_python_names(query, !is_op, options, result);
      state_->find_cpp(query, options, result);
      if (result.total == 0) state_->find_foreign(query.text, options, result);
      break;
    }
  }
  if (result.total == 0) state_->find_in_wheel(query, options, result);
  if (result.total == 0) result.suggestions = state_->suggestions(query);
  return result;
}

std::vector<PythonName> Locator::python_names(std::string_view name) const {
  for (const std::string& spelling : python_spellings(parse_name(name)))
    if (std::vector<PythonName> found = state_->python_names_of(spelling); !found.empty())
      return found;
  return {};
}

bool Locator::knows_python_name(std::string_view name) const {
  return !python_names(name).empty();
}

}  // namespace optrace
