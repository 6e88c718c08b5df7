#include "report/check/op_on_device.h"

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

#include "pytorch/names/devices.h"
#include "report/model/op_call.h"

namespace optrace {

void parse_op(const RuleSentence& sentence, std::string_view word, Rule& rule) {
  rule.pattern = word;
  if (const std::size_t at = rule.pattern.find('@'); at != std::string::npos) {
    rule.device = rule.pattern.substr(at + 1);
    rule.pattern.resize(at);
    if (rule.device != "cpu" && rule.device != "cuda")
      throw sentence.refused(fmt::format("'{}' is not a device", rule_excerpt(rule.device)),
                             "The devices are cpu and cuda: conv2d@cuda uses cudnn.");
  }
  sentence.require_name(rule.pattern);
}

std::uint64_t calls_on(const Frame& op, const std::string& device, const Report& report) {
  if (device.empty()) return op.calls;
  const auto amount = [&](bool cuda, std::uint64_t calls) {
    return cuda == is_cuda(device) ? calls : 0;
  };
  const DispatchDetail& dispatch = *op.detail->dispatch;
  if (!dispatch.choice.key_set) return amount(is_cuda(report.device), op.calls);
  if (dispatch.variants.empty()) {
    const bool cuda = std::ranges::any_of(*dispatch.choice.key_set, [](const std::string& key) {
      return key.find("CUDA") != std::string::npos;
    });
    return amount(cuda, op.calls);
  }
  std::uint64_t calls = 0;
  for (const OpCalls& kind : op_calls(op)) {
    const bool cuda = std::ranges::any_of(
        tensors_in(kind), [](const TensorFacts* tensor) { return is_cuda(tensor->device); });
    calls += amount(cuda, kind.calls);
  }
  return calls;
}

}  // namespace optrace
