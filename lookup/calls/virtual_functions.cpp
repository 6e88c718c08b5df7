#include "lookup/calls/virtual_functions.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <functional>
#include <set>
#include <unordered_map>
#include <utility>

#include "platform/elf/virtual_tables.h"
#include "platform/error.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Returns the symbol of a function or, with a made-up function, of a class in the canonical form.
// The parts that differ are rare in the names of classes.
std::string canonical(std::string_view symbol) {
  const bool differs = symbol.find("_GLOBAL__N__") != std::string_view::npos ||
                       symbol.find("AVX") != std::string_view::npos;
  return differs ? canonical_symbol(symbol) : std::string(symbol);
}

// Returns the text with which the nested names of a class's members begin: `3c109Allocator` for
// `N3c109AllocatorE`.
std::string member_prefix(std::string_view class_name) {
  constexpr std::string_view kStart = "_ZN";
  constexpr std::string_view kMember = "1fEv";
  if (class_name.starts_with('N') && class_name.ends_with('E'))
    class_name = class_name.substr(1, class_name.size() - 2);
  const std::string symbol = canonical(std::string(kStart).append(class_name).append(kMember));
  return symbol.substr(kStart.size(), symbol.size() - kStart.size() - kMember.size());
}

// Returns the name of a member that a nested name ends with: `8allocate` for `8allocateEm`, or the
// code of an operator. Empty for constructors, destructors and members of members.
std::string_view member_name(std::string_view rest) {
  std::size_t end = 0;
  while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[end])) != 0) ++end;
  constexpr std::size_t kMaxDigits = 4;
  if (end > kMaxDigits) return {};
  if (end != 0)
    end += std::stoul(std::string(rest.substr(0, end)));
  else if (rest.size() > 2 && std::islower(static_cast<unsigned char>(rest[0])) != 0)
    end = 2;
  return end != 0 && end < rest.size() && rest[end] == 'E' ? rest.substr(0, end)
                                                           : std::string_view();
}

/// A class of all libraries.
struct Class {
  std::string prefix;  // See member_prefix().
  bool has_table = false;
  bool has_pure_function = false;
  std::vector<std::size_t> bases;
  std::vector<std::size_t> derived;
  std::set<std::string> functions;  // Its own in its virtual table.
};

}  // namespace

struct VirtualFunctions::State {
  /// A function as a member of a class.
  struct Member {
    std::size_t owner = 0;
    std::string_view name;
  };

  explicit State(const std::vector<std::filesystem::path>& libraries) {
    for (const std::filesystem::path& library : libraries) {
      try {
        add(ModuleSymbols(library), library.filename());
      } catch (const Error&) {
        continue;
      }
    }
    for (std::size_t at = 0; at < classes.size(); ++at) {
      by_prefix.emplace(classes[at].prefix, at);
      for (const std::size_t base : classes[at].bases) classes[base].derived.push_back(at);
    }
  }

  std::size_t position_of(const std::string& key, std::string_view name) {
    const auto [known, is_new] = by_key.emplace(key, classes.size());
    if (is_new) classes.emplace_back().prefix = member_prefix(name);
    return known->second;
  }

  void add(const ModuleSymbols& module, const std::string& library) {
    const std::vector<PolymorphicClass> found = read_virtual_tables(module);
    const auto position = [&](std::size_t at) {
      // Classes in anonymous namespaces are only the same if they are one object.
      std::string key(found[at].name);
      if (found[at].local) key += '@' + library + std::to_string(at);
      return position_of(key, found[at].name);
    };
    for (std::size_t at = 0; at < found.size(); ++at) {
      const PolymorphicClass& one = found[at];
      // Lambdas have type information, too.
      if (!one.has_table && one.bases.empty()) continue;
      std::vector<std::size_t> bases;
      for (std::size_t base = 0; base < one.bases.size(); ++base) {
        const std::size_t here = one.base_positions[base];
        bases.push_back(here == PolymorphicClass::kElsewhere
                            ? position_of(std::string(one.bases[base]), one.bases[base])
                            : position(here));
      }
      add(one, position(at), std::move(bases));
    }
  }

  void add(const PolymorphicClass& found, std::size_t at, std::vector<std::size_t> bases) {
    if (classes[at].bases.empty()) classes[at].bases = std::move(bases);
    Class& one = classes[at];
    one.has_table |= found.has_table;
    one.has_pure_function |= found.has_pure_function;
    for (const std::string_view symbol : found.functions) {
      std::string function = canonical(symbol);
      if (nested_name(function).starts_with(one.prefix) &&
          !member_name(nested_name(function).substr(one.prefix.size())).empty())
        one.functions.insert(std::move(function));
    }
  }

  /// Returns the classes of which a function can be a member; several for anonymous namespaces.
  std::vector<Member> members(std::string_view symbol) const {
    const std::string_view nested = nested_name(symbol);
    std::vector<Member> found;
    for (std::size_t end = 1; end < nested.size() && found.empty(); ++end) {
      const std::string_view name = member_name(nested.substr(end));
      if (name.empty()) continue;
      const auto [first, last] = by_prefix.equal_range(std::string(nested.substr(0, end)));
      for (auto one = first; one != last; ++one) found.push_back({one->second, name});
    }
    return found;
  }

  /// Returns false if the virtual table of the class shows that its function is not virtual.
  bool may_be_virtual(const Member& member, std::string_view symbol) const {
    const Class& owner = classes[member.owner];
    return !owner.has_table || owner.has_pure_function ||
           owner.functions.contains(std::string(symbol));
  }

  /// Calls `visit` for the classes that `next` leads to from a class, each once.
  template <typename Next>
  void each_relative(std::size_t from, Next next,
                     const std::function<void(std::size_t)>& visit) const {
    std::set<std::size_t> seen{from};
    std::vector<std::size_t> pending{from};
    while (!pending.empty()) {
      const std::size_t at = pending.back();
      pending.pop_back();
      for (const std::size_t one : next(classes[at])) {
        if (!seen.insert(one).second) continue;
        visit(one);
        pending.push_back(one);
      }
    }
  }

  std::vector<Class> classes;
  std::unordered_map<std::string, std::size_t> by_key;
  std::unordered_multimap<std::string, std::size_t> by_prefix;
};

namespace {

std::string_view qualifiers(std::string_view symbol) {
  constexpr std::size_t kStart = 3;  // `_ZN`
  return symbol.substr(kStart, symbol.size() - kStart - nested_name(symbol).size());
}

// Returns true if two members of the same name have the same parameters and qualifiers, as a
// function and the one that it overrides.
bool same_signature(std::string_view a, std::string_view b) {
  return qualifiers(a) == qualifiers(b) && parameters_of(a) == parameters_of(b);
}

}  // namespace

VirtualFunctions::VirtualFunctions(std::vector<std::filesystem::path> libraries)
    : libraries_(std::move(libraries)) {}

VirtualFunctions::~VirtualFunctions() = default;

VirtualFunctions::State& VirtualFunctions::state() {
  if (!state_) state_ = std::make_unique<State>(libraries_);
  return *state_;
}

std::vector<std::string> VirtualFunctions::overriders(std::string_view symbol) {
  std::set<std::string> found;
  for (const State::Member& member : state().members(symbol)) {
    if (!state().may_be_virtual(member, symbol)) continue;
    const auto derived = [](const Class& one) -> const auto& { return one.derived; };
    state().each_relative(member.owner, derived, [&](std::size_t at) {
      const Class& one = state().classes[at];
      for (const std::string& function : one.functions)
        if (member_name(nested_name(function).substr(one.prefix.size())) == member.name &&
            same_signature(symbol, function))
          found.insert(function);
    });
  }
  return {found.begin(), found.end()};
}

std::string VirtualFunctions::shared_part(std::string_view symbol) {
  for (const State::Member& member : state().members(symbol)) {
    const Class& owner = state().classes[member.owner];
    if (!owner.bases.empty() && owner.functions.contains(std::string(symbol)))
      return std::string(member.name);
  }
  return {};
}

bool VirtualFunctions::overrides(std::string_view symbol, std::string_view base) {
  const std::vector<State::Member> bases = state().members(base);
  bool found = false;
  for (const State::Member& member : state().members(symbol)) {
    const auto next = [](const Class& one) -> const auto& { return one.bases; };
    state().each_relative(member.owner, next, [&](std::size_t at) {
      for (const State::Member& one : bases)
        found |= one.owner == at && one.name == member.name && state().may_be_virtual(one, base);
    });
  }
  return found && same_signature(symbol, base);
}

}  // namespace optrace
