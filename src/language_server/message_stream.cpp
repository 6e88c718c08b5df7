#include "src/language_server/message_stream.h"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>

#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/text/printable_text.h"
#include "src/terminal/standard_output.h"

namespace optrace {
namespace {

constexpr std::size_t kMaxMessage = std::size_t{64} << 20;
constexpr std::size_t kMaxLine = 1000;

Error no_message(const std::string& what) {
  return {
      ExitStatus::usage, what,
      "`optrace lsp` speaks the Language Server Protocol: an editor starts it (docs/editors.md)."};
}

/// Returns the value of a header line `Content-Length: 12`; nothing for another field.
std::optional<std::size_t> content_length(std::string_view line) {
  constexpr std::string_view kField = "content-length:";
  const bool is_length =
      line.size() > kField.size() &&
      std::ranges::equal(line.substr(0, kField.size()), kField, [](unsigned char a, char b) {
        return std::tolower(a) == static_cast<unsigned char>(b);
      });
  if (!is_length) return std::nullopt;
  line.remove_prefix(kField.size());
  while (line.starts_with(' ')) line.remove_prefix(1);
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), length);
  if (error != std::errc() || end != line.data() + line.size() || length > kMaxMessage)
    throw no_message(fmt::format("not a valid length of a message: '{}'", printable(line)));
  return length;
}

}  // namespace

bool MessageStream::fill() {
  while (at_ == end_) {
    const ssize_t count = ::read(STDIN_FILENO, buffer_.data(), buffer_.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      throw no_message(fmt::format("cannot read standard input: {}", describe_errno(errno)));
    if (count == 0) return false;
    at_ = 0;
    end_ = static_cast<std::size_t>(count);
  }
  return true;
}

std::optional<std::string> MessageStream::read_line() {
  std::string line;
  while (fill()) {
    const char c = buffer_[at_++];
    if (c == '\n') {
      if (line.ends_with('\r')) line.pop_back();
      return line;
    }
    line += c;
    if (line.size() > kMaxLine) throw no_message("a line of a message's header is too long");
  }
  return std::nullopt;
}

std::optional<std::string> MessageStream::read() {
  std::optional<std::size_t> length;
  while (true) {
    const std::optional<std::string> line = read_line();
    if (!line) return std::nullopt;
    if (line->empty()) break;
    if (line->find(':') == std::string::npos)
      throw no_message(fmt::format("not a message's header: '{}'", printable(*line)));
    if (const auto found = content_length(*line)) length = found;
  }
  if (!length) throw no_message("a message's header has no Content-Length");
  std::string text;
  while (text.size() < *length) {
    if (!fill()) return std::nullopt;
    const std::size_t size = std::min(*length - text.size(), end_ - at_);
    text.append(buffer_.data() + at_, size);
    at_ += size;
  }
  return text;
}

bool MessageStream::write(std::string_view text) {
  return write_bytes(fmt::format("Content-Length: {}\r\n\r\n{}", text.size(), text));
}

}  // namespace optrace
