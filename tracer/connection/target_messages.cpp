#include "tracer/connection/target_messages.h"

#include <algorithm>

#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "tracer/connection/message_contents.h"

namespace optrace {

std::string displayable(std::string_view text, std::size_t limit) {
  return printable_lines(text.substr(0, limit)) + (text.size() > limit ? "..." : "");
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

TargetMessage TargetMessages::take() {
  const std::string line = bytes_.substr(begin_, end_ - begin_);
  touched_ += line.size();
  begin_ = end_ + 1;
  find_end(begin_);
  return read_message(line);
}

}  // namespace optrace
