#include "lookup/locate/entry_locator.h"

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "indexer/store/source_link.h"
#include "lookup/locate/locate_query.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxCallers = 8;  // Limit unless all are requested.

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

SourceLink link_of(const Index& index) {
  return {index.git_version(), index.torch_version()};
}

}  // namespace

EntryLocator::EntryLocator(const Index& pytorch, std::vector<const Index*> extensions)
    : pytorch_(pytorch), extensions_(std::move(extensions)) {}

void EntryLocator::place(Located& located, const Index& owner,
                         const SourceLocation& location) const {
  located.file = location.file;
  located.line = location.line;
  located.approximate = location.approximate;
  if (located.file.empty()) return;
  // Only the files of PyTorch's own index are in its repository.
  const SourceLink link = &owner == &pytorch_ ? link_of(owner) : SourceLink();
  located.url = link.of_native(location.file, location.line);
}

void EntryLocator::place_python(Located& located, const SourceLocation& location) const {
  located.file = location.file;
  located.line = location.line;
  located.approximate = location.approximate;
  located.url = link_of(pytorch_).of_python(location.file, location.line);
}

Located EntryLocator::located(const Index& owner, const Definition& definition) const {
  Located result;
  result.kind = kind_of(definition.kind);
  result.name = shown_name(definition.symbol);
  if (result.kind == LocatedKind::function || result.kind == LocatedKind::device_kernel)
    result.parameters = parameters_of(definition.symbol);
  result.symbol = definition.symbol;
  place(result, owner, definition.location);
  return result;
}

Located EntryLocator::undefined(std::string_view symbol) const {
  Located result;
  result.name = shown_name(symbol);
  result.symbol = symbol;
  if (class_of(symbol))
    result.parameters = parameters_of(symbol);
  else
    result.kind = LocatedKind::foreign;
  return result;
}

std::optional<Located> EntryLocator::class_of(std::string_view symbol) const {
  const std::vector<std::string> components = symbol_components(symbol);
  const std::string key = template_key(symbol).value_or("");
  if (components.size() < 2 || !key.starts_with("_ZN")) return std::nullopt;
  const std::string member = fmt::format("{}{}E", components.back().size(), components.back());
  if (!key.ends_with(member)) return std::nullopt;
  const std::string qualified = key.substr(2, key.size() - 2 - member.size());  // N3c109Allocator
  const std::string type =
      "_ZTI" + (components.size() == 2 ? qualified.substr(1) : qualified + "E");
  std::optional<Located> found;
  each_index([&](const Index& owner) {
    if (const auto definition = owner.find_definition(type); definition && !found)
      found = located(owner, *definition);
  });
  return found;
}

Located EntryLocator::registered(const Index& owner, const Registration& registration) const {
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

std::vector<Located> EntryLocator::callers(const Index& owner, std::string_view symbol,
                                           std::string_view role, bool all) const {
  std::vector<Located> found;
  std::set<std::pair<std::string, std::uint32_t>> seen;
  for (const Caller& caller : owner.callers_of(symbol)) {
    // A lambda's calls are also listed as its function's.
    if (caller.function.symbol.find('#') != std::string_view::npos) continue;
    Located one = located(owner, caller.function);
    one.role = role;
    place(one, owner, {caller.function.location.file, caller.line, caller.approximate});
    if (!seen.emplace(one.file, one.line).second) continue;
    found.push_back(std::move(one));
    if (!all && found.size() == kMaxCallers) break;
  }
  return found;
}

std::string shown_name(std::string_view symbol) {
  const std::size_t hash = symbol.find('#');
  if (hash == std::string_view::npos) return qualified_name(symbol);
  return qualified_name(symbol.substr(0, symbol.rfind("Ul", hash))) + "::{lambda}";
}

}  // namespace optrace
