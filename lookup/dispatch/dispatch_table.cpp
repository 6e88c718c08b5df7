#include "lookup/dispatch/dispatch_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>

#include "pytorch/names/dispatch_keys.h"

namespace optrace {
namespace {

template <std::size_t Size>
bool contains(const std::array<std::string_view, Size>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

// c10/core/DispatchKeySet.h: autogradother_backends, for every backend.
constexpr auto kAutogradOtherBackends =
    std::to_array<std::string_view>({"FPGA", "MAIA", "Vulkan", "Metal", "CustomRNGKeyId",
                                     "MkldnnCPU", "Sparse", "SparseCsr", "Quantized"});

// c10/core/DispatchKeySet.cpp: runtimeDispatchKeySetHas, one function for each alias key.

// CompositeExplicitAutograd: all backends, except for nested tensors.
bool is_backend(const DispatchKeyParts& key) {
  return contains(kAutogradOtherBackends, key.functionality) || key.functionality == "Dense";
}
// CompositeExplicitAutogradNonFunctional: likewise without sparse tensors, XLA and Lazy.
bool is_non_functional_backend(const DispatchKeyParts& key) {
  return is_backend(key) && key.functionality != "Sparse" && key.backend != "XLA" &&
         key.backend != "Lazy";
}
bool is_autograd(const DispatchKeyParts& key) {
  return key.functionality == "AutogradFunctionality" || key.functionality == "AutogradOther" ||
         key.functionality == "AutogradNestedTensor";
}
bool is_nested(const DispatchKeyParts& key) {
  return key.functionality == "NestedTensor" || key.functionality == "AutogradNestedTensor";
}
bool is_implicit(const DispatchKeyParts& key) {
  return is_backend(key) || is_autograd(key) || key.functionality == "NestedTensor" ||
         key.functionality == "Functionalize";
}
bool is_batched(const DispatchKeyParts& key) {
  return key.functionality == "FuncTorchBatched";
}

// Returns true if getBackendKeySetFromAutograd(autograd) contains `key`.
bool is_backend_of(const DispatchKeyParts& autograd, const DispatchKeyParts& key) {
  if (autograd.functionality == "AutogradOther")
    return contains(kAutogradOtherBackends, key.functionality);
  if (autograd.functionality == "AutogradNestedTensor") return key.functionality == "NestedTensor";
  // c10's table omits these backends: they use composite kernels even if they have kernels of their
  // own.
  constexpr auto kLeftOut = std::to_array<std::string_view>({"HIP", "VE", "MTIA"});
  return autograd.functionality == "AutogradFunctionality" && key.functionality == "Dense" &&
         key.backend == autograd.backend && !contains(kLeftOut, autograd.backend);
}

// Resolves the alias names of c10::DispatchKey. An op's catch-all kernel is a composite one.
std::string_view spelled_as_in_c10(std::string_view key) {
  if (key.empty() || key == "CatchAll") return "CompositeImplicitAutograd";
  if (key == "DefaultBackend") return "CompositeExplicitAutograd";
  if (key == "Autocast") return "AutocastCUDA";
  return key;
}

constexpr std::array<std::string_view, 10> kDispatcherNames = {"kernel",
                                                               "default backend kernel",
                                                               "default backend kernel",
                                                               "nested kernel",
                                                               "math kernel",
                                                               "ambiguous autogradother",
                                                               "autograd kernel",
                                                               "batched kernel",
                                                               "backend fallback",
                                                               "missing"};
constexpr std::array<std::string_view, 10> kAliasKeys = {"",
                                                         "CompositeExplicitAutogradNonFunctional",
                                                         "CompositeExplicitAutograd",
                                                         "CompositeImplicitAutogradNestedTensor",
                                                         "CompositeImplicitAutograd",
                                                         "",
                                                         "Autograd",
                                                         "FuncTorchBatchedDecomposition",
                                                         "",
                                                         ""};

}  // namespace

std::string_view dispatcher_name(DispatchReason reason) {
  return kDispatcherNames.at(static_cast<std::size_t>(reason));
}

std::string_view alias_key(DispatchReason reason) {
  return kAliasKeys.at(static_cast<std::size_t>(reason));
}

DispatchTable::DispatchTable(const std::vector<Registration>& registrations,
                             const std::vector<Registration>& fallbacks) {
  for (const Registration& one : registrations) {
    if (one.kind == RegistrationKind::definition) {
      if (!declaration_) declaration_ = one;
      if (one.function.empty()) continue;
    } else if (one.kind != RegistrationKind::kernel && one.kind != RegistrationKind::fallthrough) {
      continue;
    }
    kernels_[spelled_as_in_c10(one.key)].push_back(one);
  }
  for (const Registration& one : fallbacks)
    if (one.kind == RegistrationKind::fallback || one.kind == RegistrationKind::fallthrough)
      fallbacks_.emplace(spelled_as_in_c10(one.key), one);
}

const Registration* DispatchTable::registered(std::string_view key) const {
  const auto found = kernels_.find(key);
  return found == kernels_.end() ? nullptr : &found->second.front();
}

DispatchEntry DispatchTable::entry(std::string_view key) const {
  using enum DispatchReason;
  const DispatchKeyParts parts = parts_of_dispatch_key(key);
  const bool undefined = key == "Undefined";
  const auto entry = [&](DispatchReason reason, const Registration* registration) {
    return DispatchEntry{key, reason,
                         registration == nullptr ? std::nullopt : std::optional(*registration)};
  };
  const auto by_alias = [&](DispatchReason reason) { return registered(alias_key(reason)); };

  if (const auto* const kernel = registered(key)) return entry(direct, kernel);
  if (undefined || is_non_functional_backend(parts))
    if (const auto* const kernel = by_alias(explicit_non_functional))
      return entry(explicit_non_functional, kernel);
  if (undefined || is_backend(parts))
    if (const auto* const kernel = by_alias(explicit_autograd))
      return entry(explicit_autograd, kernel);
  const auto has_kernel_of = [&](const DispatchKeyParts& autograd) {
    return std::ranges::any_of(kernels_, [&](const auto& one) {
      return is_backend_of(autograd, parts_of_dispatch_key(one.first));
    });
  };
  const bool has_backend_kernel = has_kernel_of(parts) || by_alias(explicit_autograd) != nullptr;
  if (!undefined && is_nested(parts))
    if (const auto* const kernel = by_alias(nested_tensor)) return entry(nested_tensor, kernel);
  if (undefined || is_implicit(parts)) {
    if (const auto* const kernel = by_alias(implicit_autograd)) {
      if (key == "AutogradOther" && has_kernel_of(parts)) return entry(ambiguous_other, nullptr);
      if (!has_backend_kernel) return entry(implicit_autograd, kernel);
    }
  }
  if (is_autograd(parts))
    if (const auto* const kernel = by_alias(autograd)) return entry(autograd, kernel);
  if (is_batched(parts))
    if (const auto* const kernel = by_alias(batched_decomposition))
      return entry(batched_decomposition, kernel);
  if (const auto found = fallbacks_.find(key); found != fallbacks_.end())
    return entry(fallback, &found->second);
  return entry(missing, nullptr);
}

std::vector<DispatchEntry> DispatchTable::entries() const {
  std::vector<DispatchEntry> entries;
  const std::vector<std::string>& keys = runtime_dispatch_keys();
  entries.reserve(keys.size());
  for (const std::string& key : keys) entries.push_back(entry(key));
  for (const auto& [key, kernels] : kernels_) {
    const bool known = std::ranges::find(keys, key) != keys.end() || contains(kAliasKeys, key);
    if (!known) entries.push_back(entry(key));
  }
  return entries;
}

}  // namespace optrace
