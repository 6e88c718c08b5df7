#include "lookup/decisions/decision_functions.h"

#include <algorithm>
#include <array>
#include <set>

#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

/// Enumerations that describe a tensor.
constexpr auto kDescriptions =
    std::to_array<std::string_view>({"c10::ScalarType", "c10::MemoryFormat", "c10::Layout",
                                     "c10::DeviceType", "c10::DispatchKey", "c10::QScheme"});

/// Beginnings of nested names of functions whose results are no decisions of PyTorch: those of
/// containers and symbolic numbers, and of other libraries.
constexpr auto kNoDecisions = std::to_array<std::string_view>(
    {"S", "3c10", "9__gnu_cxx", "3fmt", "8nlohmann", "8pybind11", "6caffe28TypeMeta"});

}  // namespace

bool describes_tensor(std::string_view type) {
  return std::ranges::any_of(kDescriptions, [&](std::string_view description) {
    return type.find(description) != std::string_view::npos;
  });
}

bool is_decision(const ResultType& type) {
  return type.value_form == ResultForm::boolean ||
         ((type.value_form == ResultForm::signed_enumeration ||
           type.value_form == ResultForm::unsigned_enumeration) &&
          !describes_tensor(type.name));
}

bool decides_nothing(std::string_view symbol) {
  const std::string_view name = nested_name(symbol);
  return (name.empty() && symbol.starts_with("_ZS")) ||
         std::ranges::any_of(kNoDecisions,
                             [&](std::string_view start) { return name.starts_with(start); }) ||
         qualified_name(symbol).find("operator") != std::string::npos;
}

std::vector<CalledDecision> decisions_in_source(const Index& index, std::string_view symbol,
                                                std::string_view source_file) {
  std::vector<CalledDecision> found;
  std::set<std::string_view> seen;
  for (const CallSite& site : index.calls_of(symbol, source_file)) {
    if (site.kind == CallKind::launch || !seen.insert(site.callee).second) continue;
    const auto type = index.result_type_of(site.callee, site.location.file);
    if (!type || !is_decision(*type) || decides_nothing(site.callee)) continue;
    found.push_back(
        {qualified_name(site.callee), site.location.line, site.location.approximate.has_value()});
  }
  return found;
}

}  // namespace optrace
