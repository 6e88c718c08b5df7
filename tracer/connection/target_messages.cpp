#include "tracer/connection/target_messages.h"

#include <algorithm>

#include <fmt/core.h>

#include "platform/error.h"
#include "platform/text/json_fields.h"
#include "platform/text/json_reader.h"
#include "platform/text/printable_text.h"
#include "tracer/connection/protocol.h"

namespace optrace {

std::string displayable(std::string_view text, std::size_t limit) {
  return printable_lines(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
}

std::vector<std::filesystem::path> paths_in(const nlohmann::json& message, const char* key) {
  constexpr std::size_t kMaxPaths = 1000;
  const std::vector<std::string> texts = texts_at(message, key);
  if (texts.size() > kMaxPaths) return {};
  return {texts.begin(), texts.end()};
}

void TargetMessages::append(std::string_view bytes) {
  if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    if (ready()) end_ -= begin_;
    begin_ = 0;
    touched_ += bytes_.size();
  }
  const std::size_t searched = bytes_.size();
  bytes_.append(bytes);
  if (!ready()) find_end(searched);
  if (!ready() && bytes_.size() - begin_ > kMaxLineLength)
    throw Error(ExitStatus::failed, "the traced Python sent a message that is too long", kReport);
}

void TargetMessages::find_end(std::size_t from) {
  end_ = bytes_.find('\n', from);
  touched_ += std::min(end_, bytes_.size()) - from;
}

nlohmann::json TargetMessages::take() {
  const std::string line = bytes_.substr(begin_, end_ - begin_);
  touched_ += line.size();
  begin_ = end_ + 1;
  find_end(begin_);
  nlohmann::json message = read_json(line);
  if (!message.is_object() || !message.contains(protocol::key::kMessage) ||
      !message[protocol::key::kMessage].is_string()) {
    throw Error(
        ExitStatus::failed,
        fmt::format("the traced Python sent a malformed message: '{}'", displayable(line, 60)),
        kReport);
  }
  return message;
}

}  // namespace optrace
