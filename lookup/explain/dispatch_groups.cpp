#include "lookup/explain/dispatch_groups.h"

#include <algorithm>

#include <fmt/core.h>

#include "pytorch/names/dispatch_keys.h"

namespace optrace {
namespace {

bool is_same(const SourceLocation& a, const SourceLocation& b) {
  return a.file == b.file && a.line == b.line;
}

bool is_same(const DispatchEntry& a, const DispatchEntry& b) {
  if (a.reason != b.reason || a.registration.has_value() != b.registration.has_value())
    return false;
  if (!a.registration) return true;
  return a.registration->function == b.registration->function &&
         is_same(a.registration->location, b.registration->location) &&
         a.falls_through() == b.falls_through();
}

bool is_same(const std::vector<KernelFunction>& a, const std::vector<KernelFunction>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const KernelFunction& x, const KernelFunction& y) {
                      return x.symbol == y.symbol && x.role == y.role;
                    });
}

std::string reason_of(const DispatchEntry& entry) {
  const std::string_view alias = alias_key(entry.reason);
  if (!alias.empty()) return fmt::format("by {}", alias);
  switch (entry.reason) {
    case DispatchReason::fallback:
      return "fallback of the key for all ops";
    case DispatchReason::ambiguous_other:
      return "ambiguous: several backends have kernels";
    case DispatchReason::missing:
      return "no kernel: a call with this key fails";
    default:
      return "registered for the key";
  }
}

}  // namespace

bool is_essential(const ExplainedKey& key) {
  const std::string_view name = key.entry.key;
  const DispatchReason reason = key.entry.reason;
  if (name == "CPU" || name == "CUDA" || name == "Meta") return true;
  if (reason == DispatchReason::missing || reason == DispatchReason::fallback) return false;
  if (name == "AutogradCPU" || name == "AutogradCUDA") return true;
  if (reason != DispatchReason::direct)
    return name == "FuncTorchBatched" || name == "NestedTensorCPU";
  for (const std::string_view backend : kDispatchBackends)
    if (backend != "CPU" && backend != "CUDA" && name.ends_with(backend)) return false;
  for (const std::string_view internal :
       {"Named", "Conjugate", "Negative", "Tracer", "Batched", "ZeroTensor", "Python",
        "FuncTorchGradWrapper", "BatchedNestedTensor", "VmapMode", "FuncTorchVmapMode"})
    if (name == internal) return false;
  return true;
}

std::vector<DispatchGroup> dispatch_groups(const std::vector<ExplainedKey>& keys, bool all) {
  std::vector<DispatchGroup> groups;
  for (const ExplainedKey& key : keys) {
    if (!all && !is_essential(key)) continue;
    const auto found = std::ranges::find_if(groups, [&](const DispatchGroup& group) {
      return group.first->kernel == key.kernel && is_same(group.first->entry, key.entry) &&
             is_same(group.first->functions, key.functions);
    });
    if (found == groups.end())
      groups.push_back({&key, {key.entry.key}});
    else
      found->keys.push_back(key.entry.key);
  }
  return groups;
}

std::string reason_of(const ExplainedKey& key) {
  const DispatchEntry& entry = key.entry;
  if (!entry.registration && !key.functions.empty())
    return "the index has no registration for the key";
  return (entry.falls_through() ? "falls through to the next key; " : "") + reason_of(entry);
}

std::vector<StubKernel> stub_kernels(const ExplainedStub& stub) {
  std::vector<StubKernel> kernels;
  for (const Registration& one : stub.kernels) {
    const auto found = std::ranges::find_if(kernels, [&](const StubKernel& kernel) {
      return kernel.first->function == one.function &&
             kernel.first->location.file == one.location.file;
    });
    if (found == kernels.end()) {
      kernels.push_back({&one, {one.key}});
      continue;
    }
    std::vector<std::string_view>& keys = found->second;
    if (std::ranges::find(keys, one.key) == keys.end()) keys.push_back(one.key);
  }
  return kernels;
}

}  // namespace optrace
