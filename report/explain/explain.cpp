#include "report/explain/explain.h"

#include <array>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "platform/error.h"
#include "report/explain/dispatch_table.h"
#include "report/explain/op_description.h"
#include "report/model/symbol_name.h"
#include "tracer/probes/function_roles.h"

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
    it_.asked = asked;
    it_.spelled = spelled;
    it_.name = spelled.name;
  }

  Explanation run(const std::vector<std::string>& devices) {
    catalogue();
    dispatch();
    for (const auto& device : devices) {
      const std::string key = key_with_kernel(dispatch_key_of_device(device));
      it_.devices.push_back({device, key, paths_.find(it_.name, key)});
    }
    stubs();
    derivatives();
    return std::move(it_);
  }

 private:
  void catalogue() {
    it_.entry = index_.find_op(unambiguous_name(it_.name));
    if (it_.entry && it_.entry->name != it_.name) it_.entry.reset();
    if (!it_.entry) return;
    it_.facts = index_.facts_of(*it_.entry);
    if (it_.facts.schema.empty()) return;
    try {
      it_.schema = parse_schema(it_.facts.schema);
    } catch (const Error&) {
      // The syntax of a newer PyTorch: the schema is shown as it is, without a description.
      return;
    }
    it_.words = describe_op(index_, it_.facts, *it_.schema);
  }

  DispatchTable table() const {
    return {index_.registrations_of(it_.name), index_.registrations_of("_")};
  }

  void dispatch() {
    const DispatchTable own = table();
    it_.declaration = own.declaration();
    it_.keys = explain_keys(index_, own, it_.facts);
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
  void stubs() {
    std::set<std::string> symbols;
    for (const DevicePaths& device : it_.devices)
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
      it_.stubs.push_back(std::move(stub));
    }
  }

  void derivatives() {
    for (const OpFacts::Derivative& facts : it_.facts.derivatives) {
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
      it_.derivatives.push_back(std::move(one));
    }
  }

  const SourceIndexes& index_;
  StaticPaths paths_;
  Explanation it_;
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
