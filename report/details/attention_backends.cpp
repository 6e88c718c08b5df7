#include "report/details/attention_backends.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "pytorch/symbols/symbol_name.h"
#include "pytorch/values/values_json.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOp = "aten::scaled_dot_product_attention";
constexpr std::string_view kMath = "math";
// Of the metadata, which is untrusted.
constexpr std::size_t kMaxBackends = 16;
constexpr std::size_t kMaxRefusals = 16;

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

/// Makes the detail of a call of its description in the metadata.
class DetailMaker {
 public:
  explicit DetailMaker(const Index* index) : index_(index) {}

  std::vector<AttentionBackend> backends(const Json& call) const {
    std::vector<AttentionBackend> made;
    const std::string chosen = text_at(call, "chosen");
    if (chosen == kMath) made.push_back({chosen, BackendState::chosen, {}});
    for (const Json& backend : list_at(call, "backends")) {
      const std::string name = text_at(backend, "name");
      if (name.empty() || made.size() == kMaxBackends) continue;
      AttentionBackend& one = made.emplace_back();
      one.name = name;
      one.refusals = refusals(backend);
      one.state = !one.refusals.empty() ? BackendState::refused
                  : name == chosen      ? BackendState::chosen
                                        : BackendState::possible;
    }
    return made;
  }

 private:
  std::vector<AttentionRefusal> refusals(const Json& backend) const {
    std::vector<AttentionRefusal> made;
    for (const Json& refusal : list_at(backend, "refusals")) {
      const std::string message = text_at(refusal, "message");
      if (message.empty() || made.size() == kMaxRefusals) continue;
      AttentionRefusal& one = made.emplace_back();
      one.message = message;
      const std::string file = text_at(refusal, "file");
      const std::uint32_t line = line_at(refusal, "line");
      if (file.empty() || line == 0) continue;
      one.file = file;
      one.line = line;
      if (index_ != nullptr) one.check = function_at(*index_, file, line);
    }
    return made;
  }

  const Index* index_;
};

/// Returns true if a call's tensors have the shapes and dtypes of the inputs in the metadata.
bool has_inputs(const DispatchDetail& call, const Json& inputs) {
  if (!call.arguments) return inputs.empty();
  return std::ranges::all_of(inputs, [&](const Json& input) {
    const std::string name = text_at(input, "name");
    const std::string dtype = text_at(input, "dtype");
    const Sizes shape = sizes_at(input, "shape").value_or(Sizes());
    return std::ranges::any_of(*call.arguments, [&](const Argument& argument) {
      const TensorFacts* const tensor = tensor_in(argument.value);
      return argument.name == name &&
             (tensor == nullptr
                  ? dtype.empty() && shape.empty()
                  : tensor->dtype == dtype && tensor->shape.value_or(Sizes()) == shape);
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
  const Json calls = read_json_list(meta.attention);
  if (calls.empty()) return;
  // The inputs of a call, and its backends.
  std::vector<std::pair<const Json*, std::vector<AttentionBackend>>> known;
  for (const Json& call : calls)
    if (auto backends = DetailMaker(index).backends(call); !backends.empty())
      known.emplace_back(&list_at(call, "inputs"), std::move(backends));
  walk_frames(report.roots, nullptr, [&](Frame& frame, std::nullptr_t) {
    if (frame.op != kOp || !is_op_call(frame)) return nullptr;
    const auto found = std::ranges::find_if(
        known, [&](const auto& one) { return has_inputs(*frame.detail->dispatch, *one.first); });
    if (found != known.end())
      frame.detail.edit().dispatch.edit().attention_backends = found->second;
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
