#include "lookup/locate/python_lookup.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>

#include "pytorch/functions/generated_names.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxAliasDepth = 16;

// Names that exist only when PyTorch runs: those of a module that forwards them, and of a method
// that is assigned.
struct MadeName {
  std::string_view start, stands_for;
};
constexpr auto kMadeNames = std::to_array<MadeName>({
    {"torch._VF.", "torch."},
    {"torch.nn.modules.module.Module.__call__",
     "torch.nn.modules.module.Module._wrapped_call_impl"},
});

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

// Returns the position of the `.forward` or `.<locals>.inner` at the end of a name; npos if it has
// neither.
std::size_t start_of_attribute(std::string_view name) {
  constexpr std::string_view kLocals = ".<locals>";
  const std::size_t dot = name.rfind('.');
  const bool local = dot != std::string_view::npos && name.substr(0, dot).ends_with(kLocals);
  return local ? dot - kLocals.size() : dot;
}

// Python names a method bound by pybind11 by module and name, without its class:
// `torch._C._distributed_c10d.allreduce`. Classes of torch._C may be indexed under torch.
bool is_bound_method(const PythonName& name, const NameQuery& query) {
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

}  // namespace

std::string bound_packet(std::string_view binding) {
  const std::string_view name = bound_name(binding);
  return name.empty() ? std::string() : "aten::" + std::string(name);
}

void PythonLookup::find(const NameQuery& query, bool with_ops, AnswerList& answers) {
  std::set<std::string_view> seen;
  const auto take = [&](const PythonName& name) {
    if (!seen.insert(name.name).second) return;
    answers.add([&] { return located(name, with_ops); });
  };
  for (const std::string& spelling : python_spellings(query)) {
    const std::vector<PythonName> found = names_of(spelling);
    for (const PythonName& name : found) take(name);
    // A dotted path means the object at that path, not others with the same last name.
    if (!found.empty() && query.form == NameForm::dotted) return;
  }
  if (!seen.empty() || query.form == NameForm::mangled || query.form == NameForm::cpp) return;
  for (const PythonName& name : names_ending_with(query)) take(name);
}

std::vector<PythonName> PythonLookup::names_of(const std::string& spelling) const {
  std::vector<PythonName> names;
  if (const auto found = find_name(spelling)) names.push_back(*found);
  if (names.empty() || names[0].kind != PythonKind::module_) return names;
  const std::string module(names[0].name);
  if (const auto same = find_name(module + module.substr(module.rfind('.') + 1).insert(0, ".")))
    names.push_back(*same);
  return names;
}

const std::vector<PythonName>& PythonLookup::all() {
  if (!all_) all_ = entries_.pytorch().python_names();
  return *all_;
}

std::optional<PythonName> PythonLookup::find_name(const std::string& name,
                                                  std::size_t depth) const {
  if (depth > kMaxAliasDepth) return std::nullopt;
  // A comprehension, a lambda, or a module's own code: its line is that of the enclosing object.
  if (name.ends_with('>')) {
    const std::size_t end = start_of_attribute(name);
    return end == std::string::npos ? std::nullopt : find_name(name.substr(0, end), depth + 1);
  }
  if (auto known = entries_.pytorch().find_python_name(name)) {
    if (known->kind != PythonKind::alias) return known;
    return known->target == name ? std::nullopt : find_name(std::string(known->target), depth + 1);
  }
  for (const MadeName& made : kMadeNames)
    if (name.starts_with(made.start))
      return find_name(std::string(made.stands_for) + name.substr(made.start.size()), depth + 1);
  const std::size_t dot = start_of_attribute(name);
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  const auto owner = find_name(name.substr(0, dot), depth + 1);
  if (!owner) return std::nullopt;
  const std::string attribute = name.substr(dot);
  if (owner->name != std::string_view(name).substr(0, dot))
    if (auto found = find_name(std::string(owner->name) + attribute, depth + 1)) return found;
  return owner->kind == PythonKind::class_ ? inherited(*owner, attribute, depth + 1) : std::nullopt;
}

// `attribute` starts with its dot.
std::optional<PythonName> PythonLookup::inherited(const PythonName& of,
                                                  const std::string& attribute,
                                                  std::size_t depth) const {
  std::string_view bases = of.target;
  while (!bases.empty()) {
    const std::string base(bases.substr(0, bases.find(',')));
    bases.remove_prefix(std::min(base.size() + 1, bases.size()));
    if (auto found = find_name(base + attribute, depth + 1)) return found;
  }
  return std::nullopt;
}

// Returns the names whose last components are the query's, the shortest first.
std::vector<PythonName> PythonLookup::names_ending_with(const NameQuery& query) {
  const std::string ending = "." + query.text;
  std::vector<PythonName> found;
  for (const PythonName& name : all())
    if (name.kind != PythonKind::alias &&
        (name.name.ends_with(ending) || is_bound_method(name, query)))
      found.push_back(name);
  std::ranges::sort(found, [](const PythonName& a, const PythonName& b) {
    return std::tuple(a.name.size(), a.name) < std::tuple(b.name.size(), b.name);
  });
  return found;
}

Located PythonLookup::binding(const PythonName& name) const {
  const Index& index = entries_.pytorch();
  Located part;
  if (const auto definition = index.find_definition(name.target)) {
    part = entries_.located(index, *definition);
  } else {
    part.name = shown_name(name.target);
    part.symbol = name.target;
    entries_.place(part, index, name.location);
  }
  part.role = "binding";
  return part;
}

Located PythonLookup::located(const PythonName& name, bool with_ops) {
  Located answer;
  answer.kind = kind_of(name.kind);
  answer.name = name.name;
  if (name.kind != PythonKind::builtin) {
    entries_.place_python(answer, name.location);
    return answer;
  }
  entries_.place(answer, entries_.pytorch(), name.location);
  if (name.target.empty()) return answer;
  answer.parts.push_back(binding(name));
  const Located& bound = answer.parts.back();
  answer.file = bound.file;
  answer.line = bound.line;
  answer.approximate = bound.approximate;
  answer.url = bound.url;
  if (with_ops) add_ops(answer);
  return answer;
}

// Adds the ops that a generated binding, the first part of `answer`, calls.
void PythonLookup::add_ops(Located& answer) {
  const std::string packet = bound_packet(answer.parts.front().name);
  if (packet.empty()) return;
  for (const OpEntry& op : ops_.overloads(packet)) {
    if (ops_.is_autogenerated(op)) continue;
    answer.parts.push_back(ops_.located(op));
    answer.parts.back().role = "op";
  }
}

}  // namespace optrace
