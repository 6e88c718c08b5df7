#include "lookup/explain/explain.h"

#include <array>
#include <cstddef>
#include <set>
#include <utility>

#include <fmt/core.h>

#include "lookup/dispatch/dispatch_table.h"
#include "lookup/explain/op_description.h"
#include "platform/error.h"
#include "pytorch/names/op_name.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Devices of c10/core/DeviceType.h, as torch.device spells them.
struct DeviceRow {
  std::string_view device;
  std::string_view key;
};
constexpr auto kDevices = std::to_array<DeviceRow>({
    {"cpu", "CPU"},
    {"cuda", "CUDA"},
    {"meta", "Meta"},
    {"mps", "MPS"},
    {"xpu", "XPU"},
    {"hip", "HIP"},
    {"xla", "XLA"},
    {"hpu", "HPU"},
    {"mtia", "MTIA"},
    {"vulkan", "Vulkan"},
    {"mkldnn", "MkldnnCPU"},
    {"privateuseone", "PrivateUse1"},
});

// Gathers the facts about one op.
class Explainer {
 public:
  Explainer(const SourceIndexes& index, std::string_view asked, const SpelledOp& spelled)
      : index_(index), paths_(index) {
    explanation_.asked = asked;
    explanation_.spelled = spelled;
    explanation_.name = spelled.name;
  }

  Explanation run(const std::vector<std::string>& devices) {
    add_catalogue();
    add_dispatch_keys();
    for (const auto& device : devices) {
      const std::string key = key_with_kernel(dispatch_key_of_device(device));
      explanation_.devices.push_back({device, key, paths_.find(explanation_.name, key)});
    }
    add_stubs();
    add_derivatives();
    return std::move(explanation_);
  }

 private:
  void add_catalogue() {
    explanation_.entry = index_.find_op(unambiguous_name(explanation_.name));
    if (explanation_.entry && explanation_.entry->name != explanation_.name)
      explanation_.entry.reset();
    if (!explanation_.entry) return;
    explanation_.facts = index_.facts_of(*explanation_.entry);
    if (explanation_.facts.schema.empty()) return;
    try {
      explanation_.schema = parse_schema(explanation_.facts.schema);
    } catch (const Error&) {
      // The syntax of a newer PyTorch: the schema is shown as it is, without a description.
      return;
    }
    explanation_.words = describe_op(index_, explanation_.facts, *explanation_.schema);
  }

  DispatchTable table() const {
    return {index_.registrations_of(explanation_.name), index_.registrations_of("_")};
  }

  void add_dispatch_keys() {
    const DispatchTable own = table();
    explanation_.declaration = own.declaration();
    explanation_.keys = explain_keys(index_, own, explanation_.facts);
  }

  // Returns the device's own key, or the first one of another layout if the op has kernels only for
  // those.
  std::string key_with_kernel(std::string_view device_key) const {
    const DispatchTable own = table();
    for (const std::string_view layout :
         {"", "Quantized", "Sparse", "SparseCsr", "NestedTensor", "Mkldnn"}) {
      const std::string key = fmt::format("{}{}", layout, device_key);
      const DispatchReason reason = own.entry(key).reason;
      if (reason != DispatchReason::missing && reason != DispatchReason::fallback) return key;
    }
    return std::string(device_key);
  }

  // Collects the stubs on the paths that are called before another op is.
  void add_stubs() {
    std::set<std::string> symbols;
    for (const DevicePaths& device : explanation_.devices)
      for (const StaticPath& path : device.paths) {
        std::size_t ops = 0;
        for (const PathStep& step : path.steps) {
          if (step.kind == StepKind::op && ++ops > 1) break;
          if (step.kind == StepKind::stub) symbols.insert(step.symbol);
        }
      }
    for (const std::string& symbol : symbols) {
      ExplainedStub stub{symbol, qualified_name(symbol), {}, {}};
      if (const auto found = index_.find_definition(symbol)) stub.location = found->location;
      for (const Registration& one : index_.registrations_of(symbol))
        if (one.kind == RegistrationKind::stub) stub.kernels.push_back(one);
      explanation_.stubs.push_back(std::move(stub));
    }
  }

  void add_derivatives() {
    for (const OpFacts::Derivative& facts : explanation_.facts.derivatives) {
      ExplainedDerivative one{facts, {}, {}, {}};
      if (!facts.node.empty()) {
        // torch::autograd::generated::NODE::apply(variable_list&&), tools/autograd/gen_autograd_
        // functions.py.
        const std::string symbol =
            fmt::format("_ZN5torch8autograd9generated{}{}5applyEOSt6vectorIN2at6TensorESaIS5_EE",
                        facts.node.size(), facts.node);
        if (const auto found = index_.find_definition(symbol)) {
          one.apply = symbol;
          one.location = found->location;
          one.ops = paths_.ops_called(symbol);
        }
      }
      explanation_.derivatives.push_back(std::move(one));
    }
  }

  const SourceIndexes& index_;
  StaticPaths paths_;
  Explanation explanation_;
};

}  // namespace

std::string_view dispatch_key_of_device(std::string_view device) {
  for (const DeviceRow& row : kDevices)
    if (row.device == device) return row.key;
  return {};
}

std::vector<std::string> default_devices() {
  return {"cpu", "cuda"};
}

Explanation explain(const SourceIndexes& index, const SpelledOp& spelled, std::string_view asked,
                    const std::vector<std::string>& devices) {
  return Explainer(index, asked, spelled).run(devices);
}

}  // namespace optrace
