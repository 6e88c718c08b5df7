#include "report/details/attention_backends.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <fmt/core.h>

#include "pytorch/symbols/symbol_name.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

constexpr std::string_view kOp = "aten::scaled_dot_product_attention";

/// Returns the name of the function in which a line of PyTorch's source lies; empty if the index
/// has none.
std::string function_at(const Index& index, std::string_view file, std::uint64_t line) {
  Definition nearest;
  index.each_definition([&](const Definition& one) {
    if (one.location.file == file && one.location.line <= line &&
        one.location.line > nearest.location.line)
      nearest = one;
  });
  if (nearest.symbol.empty()) return {};
  const std::string name = short_name(qualified_name(nearest.symbol));
  const std::size_t scope = name.rfind("::");
  return name.substr(scope == std::string::npos ? 0 : scope + 2, name.find('<'));
}

/// Returns true if a call's tensors have the shapes and dtypes of the inputs in the metadata.
bool has_inputs(const DispatchDetail& call, const std::vector<CallInput>& inputs) {
  if (!call.arguments) return inputs.empty();
  return std::ranges::all_of(inputs, [&](const CallInput& input) {
    const Sizes shape = input.shape.value_or(Sizes());
    return std::ranges::any_of(*call.arguments, [&](const Argument& argument) {
      const TensorFacts* const tensor = tensor_in(argument.value);
      return argument.name == input.name &&
             (tensor == nullptr
                  ? input.dtype.empty() && shape.empty()
                  : tensor->dtype == input.dtype && tensor->shape.value_or(Sizes()) == shape);
    });
  });
}

std::string refusal_text(const AttentionRefusal& refusal) {
  std::string text = "refused";
  const std::string place =
      fmt::format("{}:{}", refusal.file.substr(refusal.file.rfind('/') + 1), refusal.line);
  if (!refusal.check.empty())
    text += fmt::format(" by {} ({})", refusal.check, place);
  else if (!refusal.file.empty())
    text += fmt::format(" at {}", place);
  return fmt::format("{}: {}", text, refusal.message);
}

}  // namespace

void add_attention_backends(Report& report, const TraceMeta& meta, const Index* index) {
  std::vector<AttentionCall> calls = recorded_attention(meta);
  if (calls.empty()) return;
  if (index != nullptr)
    for (AttentionCall& call : calls)
      for (AttentionBackend& backend : call.backends)
        for (AttentionRefusal& refusal : backend.refusals)
          if (!refusal.file.empty())
            refusal.check = function_at(*index, refusal.file, refusal.line);
  walk_frames(report.roots, nullptr, [&](Frame& frame, std::nullptr_t) {
    if (frame.op != kOp || !is_op_call(frame)) return nullptr;
    const auto found = std::ranges::find_if(calls, [&](const AttentionCall& one) {
      return has_inputs(*frame.detail->dispatch, one.inputs);
    });
    if (found != calls.end())
      frame.detail.edit().dispatch.edit().attention_backends = found->backends;
    return nullptr;
  });
}

std::vector<std::string> attention_lines(const std::vector<AttentionBackend>& backends) {
  std::vector<std::string> lines;
  for (const AttentionBackend& backend : backends) {
    if (backend.state == BackendState::chosen)
      lines.push_back(fmt::format("{}: chosen", backend.name));
    if (backend.state == BackendState::possible)
      lines.push_back(fmt::format("{}: supports this call, too", backend.name));
    for (const AttentionRefusal& refusal : backend.refusals)
      lines.push_back(fmt::format("{}: {}", backend.name, refusal_text(refusal)));
  }
  return lines;
}

}  // namespace optrace
