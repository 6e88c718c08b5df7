#include "lookup/calls/call_hierarchy.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "lookup/calls/followed_calls.h"
#include "present/readable_numbers.h"
#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/function_roles.h"
#include "pytorch/names/op_name.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxCallers = 20;     // Of one function, unless all are requested.
constexpr std::size_t kMaxOverriders = 20;  // Of one function, unless all are requested.
constexpr std::string_view kOverrides = "overrides";
constexpr std::string_view kOverriddenBy = "overridden by";

std::string_view role_of(CallKind kind) {
  switch (kind) {
    case CallKind::launch:
      return "launches";
    case CallKind::reference:
      return "takes the address of";
    case CallKind::call:
    case CallKind::stub:
      break;
  }
  return "calls";
}

// Returns a text that identifies a name: an op's and a function's are different.
std::string identity(const Located& located) {
  return located.symbol.empty() ? located.name : located.symbol + " " + located.file;
}

// A call through a stub is a call site of the stub, too.
bool is_stubs_own(std::string_view callee) {
  return nested_name(callee).starts_with("2at6native12DispatchStub");
}

bool is_registering_function(const Located& caller) {
  return caller.role == "called from" && caller.name.find("::TORCH_LIBRARY_") != std::string::npos;
}

void append(std::vector<Located>& to, std::vector<Located> more) {
  std::move(more.begin(), more.end(), std::back_inserter(to));
}

}  // namespace

bool CallHierarchy::has_calls(const Located& answer) {
  return answer.kind == LocatedKind::op || answer.kind == LocatedKind::function ||
         answer.kind == LocatedKind::device_kernel || answer.kind == LocatedKind::stub ||
         answer.kind == LocatedKind::foreign;
}

void CallHierarchy::add_callers(Located& answer, const CallHierarchyOptions& options) {
  expand(answer, options, [&](Located& of) { append_callers(of, options.all); });
}

void CallHierarchy::add_callees(Located& answer, const CallHierarchyOptions& options) {
  expand(answer, options, [&](Located& of) { append_callees(of, options.all); });
}

// Expands names breadth first, so that each is expanded where it is nearest to the answer.
template <typename Neighbours>
void CallHierarchy::expand(Located& answer, const CallHierarchyOptions& options,
                           Neighbours neighbours) {
  struct Step {
    Located* name = nullptr;
    std::size_t above = 0;  // The step of the name that it is a part of.
    std::size_t depth = 0;
  };
  std::vector<Step> steps{{&answer, 0, 0}};
  std::set<std::string> expanded;
  const auto is_above = [&](std::size_t at) {
    const std::string own = identity(*steps[at].name);
    while (at != 0) {
      at = steps[at].above;
      if (identity(*steps[at].name) == own) return true;
    }
    return false;
  };
  for (std::size_t at = 0; at < steps.size(); ++at) {
    Located& name = *steps[at].name;
    if (!has_calls(name)) continue;
    if (is_above(at)) {
      name.note = "recursion";
      continue;
    }
    if (steps[at].depth == options.depth) continue;
    if (!expanded.insert(identity(name)).second) {
      name.note = "listed elsewhere";
      continue;
    }
    if (steps.size() >= kMaxNames) {
      name.note = fmt::format("not searched: the limit is {} names", kMaxNames);
      continue;
    }
    const std::size_t before = at == 0 ? name.parts.size() : 0;
    if (at != 0) name.parts.clear();
    neighbours(name);
    // A call of the overridden function is a call of the one that overrides it.
    for (std::size_t part = before; part < name.parts.size(); ++part)
      steps.push_back(
          {&name.parts[part], at, steps[at].depth + (name.parts[part].role == kOverrides ? 0 : 1)});
  }
}

void CallHierarchy::append_callers(Located& of, bool all) {
  std::vector<std::string> symbols{of.symbol};
  if (of.kind == LocatedKind::op) symbols = dispatching_functions(of.name);
  if (of.kind == LocatedKind::function && of.role != kOverrides) add_overridden(of);
  const std::size_t before = of.parts.size();
  if (of.kind == LocatedKind::function) {
    add_uses_of_kernel(of);
    add_bound_names(of);
  }
  const bool registered = of.parts.size() > before;
  for (const std::string& symbol : symbols) add_callers_of(symbol, of);
  // What registers a function takes its address, and the registration is in the list.
  if (registered) std::erase_if(of.parts, is_registering_function);
  if (!all && of.parts.size() > before + kMaxCallers) {
    of.left_out = of.parts.size() - before - kMaxCallers;
    of.parts.resize(before + kMaxCallers);
  }
}

void CallHierarchy::add_callers_of(const std::string& symbol, Located& of) const {
  const std::string_view role =
      of.kind == LocatedKind::device_kernel ? "launched from" : "called from";
  entries_.each_index(
      [&](const Index& owner) { append(of.parts, entries_.callers(owner, symbol, role, true)); });
}

// Adds the ops and stubs for which a function is registered. Their own callers call it.
void CallHierarchy::add_uses_of_kernel(Located& of) {
  const auto [begin, end] = registrations().equal_range(of.symbol);
  for (auto at = begin; at != end; ++at) {
    const Registration& one = at->second;
    Located use;
    use.role = "registered for";
    use.key = one.key;
    if (one.kind == RegistrationKind::stub) {
      use.kind = LocatedKind::stub;
      use.name = shown_name(one.name);
      use.symbol = one.name;
    } else {
      use.kind = LocatedKind::op;
      use.name = one.name;
    }
    entries_.place(use, entries_.pytorch(), one.location);
    // A kernel may be registered for many keys.
    const auto same = std::ranges::find_if(of.parts, [&](const Located& other) {
      return other.role == use.role && other.name == use.name && other.file == use.file;
    });
    if (same == of.parts.end())
      of.parts.push_back(std::move(use));
    else
      same->key += ", " + use.key;
  }
}

void CallHierarchy::add_bound_names(Located& of) {
  const auto [begin, end] = bindings().equal_range(of.symbol);
  for (auto at = begin; at != end; ++at) {
    Located name;
    name.kind = LocatedKind::python_builtin;
    name.role = "bound as";
    name.name = at->second.name;
    of.parts.push_back(std::move(name));
  }
}

void CallHierarchy::append_callees(Located& of, bool all) {
  if (of.kind == LocatedKind::op) {
    if (const auto op = graph_.index().find_op(unambiguous_name(of.name));
        op && op->name == of.name)
      append(of.parts, ops_.located(*op).parts);
    return;
  }
  if (of.kind == LocatedKind::stub) {
    entries_.each_index([&](const Index& owner) {
      for (const Registration& one : owner.registrations_of(of.symbol))
        if (one.kind == RegistrationKind::stub) of.parts.push_back(entries_.registered(owner, one));
    });
    return;
  }
  std::set<std::string_view> seen;  // Only the first of several calls is listed.
  for (const CallSite& site : graph_.index().calls_of(of.symbol, of.file)) {
    if (!seen.insert(site.callee).second) continue;
    const bool is_op = !graph_.op_of(site.callee).empty();
    const bool library = !library_of_callee(site.callee).empty();
    const bool passed_over = !is_followed(site.callee) || is_stubs_own(site.callee);
    if (!all && site.kind == CallKind::call && !is_op && !library && passed_over) {
      ++of.left_out;
      continue;
    }
    if (auto part = callee(site)) of.parts.push_back(std::move(*part));
  }
  add_overriders(of, all);
}

// Adds the functions that a virtual function overrides.
void CallHierarchy::add_overridden(Located& of) {
  const std::string part =
      virtual_functions_ == nullptr ? "" : virtual_functions_->shared_part(of.symbol);
  if (part.empty()) return;
  std::set<std::string> found;
  entries_.each_index([&](const Index& owner) {
    owner.each_symbol_with(part, [&](std::string_view symbol) {
      if (virtual_functions_->overrides(of.symbol, symbol)) found.emplace(symbol);
      return true;
    });
  });
  for (const std::string& symbol : found) {
    of.parts.push_back(function(symbol));
    of.parts.back().role = kOverrides;
  }
}

// Adds the functions that override a virtual function. Their own overriders are among them.
void CallHierarchy::add_overriders(Located& of, bool all) {
  if (of.role == kOverriddenBy) return;
  std::set<std::pair<std::string, std::string>> seen;  // Instances of a template are one function.
  std::size_t listed = 0;
  for (const std::string& symbol : overriders(of)) {
    Located part = function(symbol);
    part.role = kOverriddenBy;
    if (!seen.emplace(part.symbol, part.file).second) continue;
    if (!all && listed == kMaxOverriders) {
      ++of.left_out;
      continue;
    }
    of.parts.push_back(std::move(part));
    ++listed;
  }
}

std::vector<std::string> CallHierarchy::overriders(const Located& of) {
  if (virtual_functions_ == nullptr) return {};
  return virtual_functions_->overriders(of.symbol);
}

// Returns a function by its symbol.
Located CallHierarchy::function(const std::string& symbol) const {
  std::optional<Located> found;
  entries_.each_index([&](const Index& owner) {
    if (found) return;
    if (const auto definition = owner.find_definition(symbol))
      found = entries_.located(owner, *definition);
  });
  return found ? *std::move(found) : entries_.undefined(symbol);
}

std::optional<Located> CallHierarchy::callee(const CallSite& site) {
  Located part;
  if (const std::string op = graph_.op_of(site.callee); !op.empty()) {
    const auto entry = graph_.index().find_op(unambiguous_name(op));
    if (!entry) return std::nullopt;
    part.kind = LocatedKind::op;
    part.name = op;
    entries_.place(part, entries_.pytorch(), entry->location);
  } else {
    bool found = false;
    entries_.each_index([&](const Index& owner) {
      if (found) return;
      if (const auto definition = owner.find_definition(site.callee, site.location.file)) {
        part = entries_.located(owner, *definition);
        found = true;
      }
    });
    if (!found) {
      part = entries_.undefined(site.callee);
      if (part.kind == LocatedKind::foreign) part.library = library_of_callee(site.callee);
    }
    if (const std::size_t count = overriders(part).size(); count != 0)
      part.note = "virtual, " + counted(count, "override");
  }
  part.role = role_of(site.kind);
  part.call_line = site.location.line;
  part.call_approximate = site.location.approximate;
  return part;
}

// Returns the symbols of `at::_ops::X::call` and `redispatch`.
std::vector<std::string> CallHierarchy::dispatching_functions(std::string_view op) const {
  std::vector<std::string> symbols;
  const std::string name = unambiguous_name(op);
  const std::string part = step_symbol_part(name);
  entries_.pytorch().each_symbol_with(part, [&](std::string_view symbol) {
    if (dispatched_op(symbol) == name) symbols.emplace_back(symbol);
    return true;
  });
  return symbols;
}

const CallHierarchy::Registrations& CallHierarchy::registrations() {
  if (registrations_) return *registrations_;
  Registrations& all = registrations_.emplace();
  entries_.each_index([&](const Index& owner) {
    for (const Registration& one : owner.registrations())
      if (!one.function.empty()) all.emplace(one.function, one);
  });
  return all;
}

const std::multimap<std::string_view, PythonName, std::less<>>& CallHierarchy::bindings() {
  if (bindings_) return *bindings_;
  auto& all = bindings_.emplace();
  for (const PythonName& name : entries_.pytorch().python_names())
    if (name.kind == PythonKind::builtin && !name.target.empty()) all.emplace(name.target, name);
  return all;
}

}  // namespace optrace
