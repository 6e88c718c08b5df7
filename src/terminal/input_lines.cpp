#include "src/terminal/input_lines.h"

#include <cerrno>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"

namespace optrace {

std::optional<InputLines::Line> InputLines::next() {
  Line line;
  bool any = false;
  while (true) {
    if (at_ == end_) {
      const ssize_t count = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        throw Error(ExitStatus::failed,
                    fmt::format("cannot read standard input: {}", describe_errno(errno)),
                    "Give one name per line on standard input.");
      }
      if (count == 0) return any ? std::optional(std::move(line)) : std::nullopt;
      at_ = 0;
      end_ = static_cast<std::size_t>(count);
    }
    any = true;
    const std::string_view rest(buffer_.data() + at_, end_ - at_);
    const std::size_t newline = rest.find('\n');
    const std::string_view piece = rest.substr(0, newline);
    const std::size_t room = longest_ + 1 - line.text.size();
    line.cut = line.cut || piece.size() > room;
    line.text += piece.substr(0, room);
    at_ += piece.size();
    if (newline != std::string_view::npos) {
      ++at_;
      return line;
    }
  }
}

}  // namespace optrace
