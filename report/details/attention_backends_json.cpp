#include <cstddef>
#include <string_view>
#include <utility>

#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "pytorch/values/values_json.h"
#include "report/details/attention_backends.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMath = "math";
constexpr std::size_t kMaxBackends = 16;
constexpr std::size_t kMaxRefusals = 16;

std::vector<AttentionRefusal> refusals_of(const Json& backend) {
  std::vector<AttentionRefusal> made;
  for (const Json& refusal : list_at(backend, "refusals")) {
    const std::string message = text_at(refusal, "message");
    if (message.empty() || made.size() == kMaxRefusals) continue;
    AttentionRefusal& one = made.emplace_back();
    one.message = message;
    std::string file = text_at(refusal, "file");
    const std::uint32_t line = line_at(refusal, "line");
    if (file.empty() || line == 0) continue;
    one.file = std::move(file);
    one.line = line;
  }
  return made;
}

std::vector<AttentionBackend> backends_of(const Json& call) {
  std::vector<AttentionBackend> made;
  const std::string chosen = text_at(call, "chosen");
  if (chosen == kMath) made.push_back({chosen, BackendState::chosen, {}});
  for (const Json& backend : list_at(call, "backends")) {
    const std::string name = text_at(backend, "name");
    if (name.empty() || made.size() == kMaxBackends) continue;
    AttentionBackend& one = made.emplace_back();
    one.name = name;
    one.refusals = refusals_of(backend);
    one.state = !one.refusals.empty() ? BackendState::refused
                : name == chosen      ? BackendState::chosen
                                      : BackendState::possible;
  }
  return made;
}

}  // namespace

std::vector<AttentionCall> recorded_attention(const TraceMeta& meta) {
  std::vector<AttentionCall> calls;
  for (const Json& call : read_json_list(meta.attention)) {
    AttentionCall read{{}, backends_of(call)};
    for (const Json& input : list_at(call, "inputs"))
      read.inputs.push_back(
          {text_at(input, "name"), sizes_at(input, "shape"), text_at(input, "dtype")});
    if (!read.backends.empty()) calls.push_back(std::move(read));
  }
  return calls;
}

}  // namespace optrace
