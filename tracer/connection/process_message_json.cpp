#include "platform/text/json_fields.h"
#include "tracer/connection/message_contents_json.h"
#include "tracer/connection/process_message.h"
#include "tracer/connection/protocol.h"

namespace optrace {

namespace key = protocol::key;

ProcessMessage process_in(const TargetMessage& message) {
  const nlohmann::json& json = message.content().json;
  return {.ended = message.kind() == protocol::message::kEnded,
          .forked = flag_at(json, key::kForked),
          .parent = static_cast<pid_t>(count_at(json, key::kParent)),
          .steps = number_at(json, key::kSteps),
          .rank = rank_number(text_at(json, key::kRank)),
          .torch = {.torch = text_at(json, key::kTorch),
                    .modules = paths_in(json, key::kModules),
                    .cuda = flag_at(json, key::kCuda)},
          .arguments = texts_at(json, key::kArguments)};
}

std::optional<std::uint64_t> rank_number(std::string_view text) {
  constexpr std::size_t kMaxDigits = 9;
  if (text.empty() || text.size() > kMaxDigits ||
      text.find_first_not_of("0123456789") != std::string_view::npos) {
    return std::nullopt;
  }
  return std::stoull(std::string(text));
}

}  // namespace optrace
