#include "src/terminal/standard_output.h"

#include <cerrno>
#include <cstdio>
#include <string>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "platform/error.h"
#include "platform/process/interrupt.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

bool write_stream(int descriptor, std::string_view name, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) {
      InterruptGuard::throw_if_interrupted();
      continue;
    }
    if (written < 0 && errno == EPIPE) return false;
    if (written < 0) {
      throw Error(ExitStatus::failed,
                  fmt::format("writing to {} failed: {}", name, describe_errno(errno)),
                  "Free some space, or redirect the output.");
    }
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

/// Indents the further lines of a message, so that it can't look like several messages.
std::string indented(const std::string& text) {
  std::string lines;
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines += "  ";
  }
  return lines;
}

}  // namespace

bool write_standard_output(std::string_view text) {
  return write_commands(printable_output(text));
}

bool write_commands(std::string_view text) {
  return write_bytes(text);
}

bool write_bytes(std::string_view bytes) {
  require_standard_output();
  return write_stream(STDOUT_FILENO, "standard output", bytes);
}

bool write_standard_error(std::string_view text) {
  return write_stream(STDERR_FILENO, "standard error", printable_output(text));
}

void write_message(std::string_view what, std::string_view remedy) {
  std::string text = fmt::format("optrace: {}\n", indented(printable_lines(what)));
  if (!remedy.empty()) text += printable_lines(remedy) + "\n";
  std::fputs(text.c_str(), stderr);  // fmt::print would throw on a write error.
}

void require_standard_output() {
  const int flags = ::fcntl(STDOUT_FILENO, F_GETFL);
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
    throw Error(ExitStatus::usage, "standard output is closed",
                "Redirect it, or name a file with -o.");
  }
}

}  // namespace optrace
