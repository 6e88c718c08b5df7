#include "indexer/store/completeness.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "pytorch/functions/generated_names.h"
#include "pytorch/symbols/symbol_key.h"

namespace optrace {
namespace {

// Substrings of the dispatch keys of devices whose sources are in no Linux x86-64 wheel.
constexpr auto kOtherDevices = std::to_array<std::string_view>(
    {"MPS", "XPU", "Vulkan", "Metal", "MTIA", "HPU", "IPU", "VE", "PrivateUse", "MAIA"});

bool is_of_other_device(std::string_view key) {
  return std::ranges::any_of(kOtherDevices,
                             [&](auto part) { return key.find(part) != std::string_view::npos; });
}

// Encodes a qualified C++ name as in a template_key: `2at6native7add_out`.
std::string encoded(std::string_view qualified) {
  std::string key;
  while (!qualified.empty()) {
    const std::string_view part = qualified.substr(0, qualified.find("::"));
    key += std::to_string(part.size());
    key += part;
    qualified.remove_prefix(std::min(part.size() + 2, qualified.size()));
  }
  return key;
}

std::string names_only(std::string_view symbol) {
  return template_key(symbol).value_or(std::string(symbol));
}

// A structured kernel is a class whose `impl` contains the code (TORCH_IMPL_FUNC).
std::string key_of(const OpFacts::Kernel& kernel) {
  return "_ZN" + encoded(kernel.name) + (kernel.structured ? "4impl" : "") + "E";
}

/// Returns true if a function registered for the op is the kernel, or calls a definition of it.
bool is_reached(const Index& index, const std::vector<Registration>& registrations,
                const OpFacts::Kernel& kernel, const std::string& searched) {
  for (const Registration& registration : registrations) {
    if (registration.key != kernel.key || registration.function.empty()) continue;
    if (names_only(registration.function) == searched) return true;
    for (const CallSite& site : index.calls_of(registration.function, registration.location.file))
      if (names_only(site.callee) == searched && index.find_definition(site.callee)) return true;
  }
  return false;
}

struct Namespace {
  std::string_view name;
  bool (*holds)(std::string_view symbol);  // Canonical.
};

bool in(std::string_view symbol, std::string_view scope) {
  return symbol.starts_with("_ZN" + std::string(scope)) ||
         symbol.starts_with("_ZNK" + std::string(scope));
}

bool is_binding(std::string_view symbol) {
  return !bound_name(symbol).empty() && in(symbol, "5torch8autograd");
}

// A symbol belongs to the first class that accepts it.
constexpr auto kNamespaces = std::to_array<Namespace>({
    {"at::native", [](std::string_view symbol) { return in(symbol, "2at6native"); }},
    {"at::_ops", [](std::string_view symbol) { return in(symbol, "2at4_ops"); }},
    {"wrappers", is_wrapper_symbol},
    {"bindings", is_binding},
    {"torch::autograd", [](std::string_view symbol) { return in(symbol, "5torch8autograd"); }},
});

// Returns the type info symbol of the class that a constructor, destructor or assignment belongs
// to.
std::optional<std::string> class_of_special_member(std::string_view symbol) {
  const std::string key = names_only(symbol);
  constexpr std::string_view kStart = "_ZN";
  for (const std::string_view member : {"C1E", "D1E", "aSE"})
    if (key.starts_with(kStart) && key.ends_with(member))
      return "_ZTIN" + key.substr(kStart.size(), key.size() - kStart.size() - member.size()) + "E";
  return std::nullopt;
}

// True for lambdas in functions, and for lambdas at namespace scope through their static invoker.
bool is_lambda(std::string_view symbol) {
  return symbol.starts_with("_ZZ") || symbol.find("4_FUNE") != std::string_view::npos;
}

void count(const Index& index, std::string_view symbol, std::string_view source_file,
           LibraryCoverage::Class& counted) {
  ++counted.functions.all;
  if (index.find_definition(symbol, source_file)) {
    ++counted.functions.known;
    return;
  }
  const auto type = class_of_special_member(symbol);
  if (type && index.find_definition(*type)) {
    ++counted.functions.known;
    ++counted.implicit;
    return;
  }
  counted.missing.emplace_back(symbol);
}

}  // namespace

double Share::percent() const {
  return all == 0 ? 100.0 : 100.0 * static_cast<double>(known) / static_cast<double>(all);
}

Share KernelCoverage::available() const {
  return {pairs.known, pairs.all - not_built.size()};
}

KernelCoverage kernel_coverage(const Index& index) {
  std::unordered_set<std::string> defined;
  index.each_definition([&](const Definition& definition) {
    if (definition.kind == DefinitionKind::function) defined.insert(names_only(definition.symbol));
  });
  KernelCoverage coverage;
  for (const OpEntry& op : index.ops()) {
    const OpFacts facts = index.facts_of(op);
    const std::vector<Registration> registrations = index.registrations_of(op.name);
    for (const OpFacts::Kernel& kernel : facts.kernels) {
      ++coverage.pairs.all;
      const std::string searched = key_of(kernel);
      if (is_reached(index, registrations, kernel, searched)) {
        ++coverage.pairs.known;
        ++coverage.by_registration;
      } else if (defined.contains(searched)) {
        ++coverage.pairs.known;
      } else {
        auto& missing = is_of_other_device(kernel.key) ? coverage.not_built : coverage.missing;
        missing.push_back({op.name, kernel.key, kernel.name});
      }
    }
  }
  return coverage;
}

Share LibraryCoverage::functions() const {
  Share sum;
  for (const Class& of : classes) {
    sum.known += of.functions.known;
    sum.all += of.functions.all;
  }
  return sum;
}

LibraryCounter::LibraryCounter(const Index& index, std::string library) : index_(index) {
  coverage_.library = std::move(library);
  coverage_.lambdas.name = "lambdas";
  for (const Namespace& space : kNamespaces)
    coverage_.classes.push_back({std::string(space.name), {}, 0, {}});
}

void LibraryCounter::add(std::string_view mangled) {
  const std::string symbol = canonical_symbol(mangled);
  if (!seen_.insert(symbol).second) return;
  if (is_lambda(symbol)) {
    const auto function = enclosing_function(symbol);
    if (lambda_key(symbol) && function && index_.find_definition(*function))
      count(index_, symbol, {}, coverage_.lambdas);
    return;
  }
  const auto space =
      std::ranges::find_if(kNamespaces, [&](const Namespace& one) { return one.holds(symbol); });
  if (space == kNamespaces.end() || function_key(symbol) != symbol) return;
  count(index_, symbol, {},
        coverage_.classes[static_cast<std::size_t>(space - kNamespaces.begin())]);
}

LibraryCoverage LibraryCounter::take() {
  std::erase_if(coverage_.classes, [](const auto& of) { return of.functions.all == 0; });
  return std::move(coverage_);
}

}  // namespace optrace
