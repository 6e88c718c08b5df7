#include "report/details/attention_backends.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "pytorch/symbols/symbol_name.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr const char* kBackends = "attention_backends";
constexpr const char* kRefusals = "refusals";
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

  Json backends(const Json& call) const {
    Json made = Json::array();
    const std::string chosen = text_at(call, "chosen");
    if (chosen == kMath) made.push_back({{"name", kMath}, {"state", "chosen"}});
    for (const Json& backend : list_at(call, "backends")) {
      const std::string name = text_at(backend, "name");
      if (name.empty() || made.size() == kMaxBackends) continue;
      Json one = {{"name", name}, {"state", name == chosen ? "chosen" : "possible"}};
      if (Json refused = refusals(backend); !refused.empty()) {
        one["state"] = "refused";
        one[kRefusals] = std::move(refused);
      }
      made.push_back(std::move(one));
    }
    return made;
  }

 private:
  Json refusals(const Json& backend) const {
    Json made = Json::array();
    for (const Json& refusal : list_at(backend, kRefusals)) {
      const std::string message = text_at(refusal, "message");
      if (message.empty() || made.size() == kMaxRefusals) continue;
      Json one = {{"message", message}};
      const std::string file = text_at(refusal, "file");
      const std::uint64_t line = count_at(refusal, "line");
      if (!file.empty() && line != 0 && line <= std::numeric_limits<std::uint32_t>::max()) {
        one["file"] = file;
        one["line"] = line;
        if (index_ != nullptr)
          if (const std::string check = function_at(*index_, file, line); !check.empty())
            one["check"] = check;
      }
      made.push_back(std::move(one));
    }
    return made;
  }

  const Index* index_;
};

/// Returns true if a call's tensors have the shapes and dtypes of the inputs in the metadata.
bool has_inputs(const Json& detail, const Json& inputs) {
  const Json& arguments = list_at(detail, "arguments");
  return std::ranges::all_of(inputs, [&](const Json& input) {
    return std::ranges::any_of(arguments, [&](const Json& argument) {
      const Json& tensor = object_at(object_at(argument, "value"), "tensor");
      return text_at(argument, "name") == text_at(input, "name") &&
             text_at(tensor, "dtype") == text_at(input, "dtype") &&
             list_at(tensor, "shape") == list_at(input, "shape");
    });
  });
}

std::string refusal_text(const Json& refusal) {
  std::string text = "refused";
  const std::string check = text_at(refusal, "check");
  const std::string file = text_at(refusal, "file");
  const std::string place =
      fmt::format("{}:{}", file.substr(file.rfind('/') + 1), count_at(refusal, "line"));
  if (!check.empty())
    text += fmt::format(" by {} ({})", check, place);
  else if (!file.empty())
    text += fmt::format(" at {}", place);
  return fmt::format("{}: {}", text, text_at(refusal, "message"));
}

}  // namespace

void note_attention_backends(Report& report, const Json& meta, const Index* index) {
  const Json& calls = list_at(meta, "attention");
  if (calls.empty()) return;
  std::vector<std::pair<const Json*, Json>> known;  // The inputs of a call, and its backends.
  for (const Json& call : calls)
    if (Json backends = DetailMaker(index).backends(call); !backends.empty())
      known.emplace_back(&list_at(call, "inputs"), std::move(backends));
  walk_frames(report.roots, nullptr, [&](Frame& frame, std::nullptr_t) {
    if (frame.op != kOp || text_at(frame.detail, "step") != "call") return nullptr;
    const auto found = std::ranges::find_if(
        known, [&](const auto& one) { return has_inputs(frame.detail, *one.first); });
    if (found != known.end()) frame.detail.edit()[kBackends] = found->second;
    return nullptr;
  });
}

std::vector<std::string> attention_lines(const Json& detail) {
  std::vector<std::string> lines;
  for (const Json& backend : list_at(detail, kBackends)) {
    const std::string name = text_at(backend, "name");
    const std::string state = text_at(backend, "state");
    if (state == "chosen") lines.push_back(fmt::format("{}: chosen", name));
    if (state == "possible") lines.push_back(fmt::format("{}: supports this call, too", name));
    for (const Json& refusal : list_at(backend, kRefusals))
      lines.push_back(fmt::format("{}: {}", name, refusal_text(refusal)));
  }
  return lines;
}

}  // namespace optrace
