#include "pytorch/names/dispatch_keys.h"

#include <algorithm>

namespace optrace {
namespace {

// The functionalities in the dispatcher's order. Those that are per backend have one key for each
// backend.
struct Functionality {
  std::string_view name;
  bool per_backend = false;
  std::string_view prefix = {};  // Prefix of its keys: `Sparse` for `SparseCPU`.
};
constexpr auto kFunctionalities = std::to_array<Functionality>({
    {"Undefined"},
    {"Dense", true, ""},
    {"FPGA"},
    {"MAIA"},
    {"Vulkan"},
    {"Metal"},
    {"Quantized", true, "Quantized"},
    {"CustomRNGKeyId"},
    {"MkldnnCPU"},
    {"Sparse", true, "Sparse"},
    {"SparseCsr", true, "SparseCsr"},
    {"NestedTensor", true, "NestedTensor"},
    {"BackendSelect"},
    {"Python"},
    {"Fake"},
    {"FuncTorchDynamicLayerBackMode"},
    {"Functionalize"},
    {"Named"},
    {"Conjugate"},
    {"Negative"},
    {"ZeroTensor"},
    {"ADInplaceOrView"},
    {"AutogradOther"},
    {"AutogradFunctionality", true, "Autograd"},
    {"AutogradNestedTensor"},
    {"Tracer"},
    {"AutocastCPU"},
    {"AutocastXPU"},
    {"AutocastIPU"},
    {"AutocastHPU"},
    {"AutocastXLA"},
    {"AutocastMPS"},
    {"AutocastCUDA"},
    {"AutocastPrivateUse1"},
    {"FuncTorchBatched"},
    {"BatchedNestedTensor"},
    {"FuncTorchVmapMode"},
    {"Batched"},
    {"VmapMode"},
    {"FuncTorchGradWrapper"},
    {"DeferredInit"},
    {"PythonTLSSnapshot"},
    {"FuncTorchDynamicLayerFrontMode"},
    {"TESTING_ONLY_GenericWrapper"},
    {"TESTING_ONLY_GenericMode"},
    {"PreDispatch"},
    {"PythonDispatcher"},
});

std::vector<std::string> make_runtime_keys() {
  std::vector<std::string> keys;
  for (const Functionality& one : kFunctionalities) {
    if (one.per_backend)
      for (const std::string_view backend : kDispatchBackends)
        keys.push_back(std::string(one.prefix) + std::string(backend));
    else
      keys.emplace_back(one.name);
  }
  return keys;
}

}  // namespace

DispatchKeyParts parts_of_dispatch_key(std::string_view key) {
  for (const Functionality& one : kFunctionalities)
    if (!one.per_backend && one.name == key) return {key, {}};
  for (const Functionality& one : kFunctionalities) {
    if (!one.per_backend || !key.starts_with(one.prefix)) continue;
    const std::string_view backend = key.substr(one.prefix.size());
    if (std::ranges::find(kDispatchBackends, backend) != kDispatchBackends.end())
      return {one.name, backend};
  }
  return {key, {}};
}

const std::vector<std::string>& runtime_dispatch_keys() {
  static const std::vector<std::string> keys = make_runtime_keys();
  return keys;
}

}  // namespace optrace
