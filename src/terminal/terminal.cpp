#include "src/terminal/terminal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

namespace optrace {
namespace {

// A tree can't be laid out in fewer columns; on a narrower terminal, its lines are too long.
constexpr std::size_t kNarrowest = 80;

std::size_t terminal_width(int descriptor) {
  if (const char* const columns = std::getenv("COLUMNS"); columns != nullptr) {
    std::size_t width = 0;
    const char* const end = columns + std::strlen(columns);
    const auto [rest, error] = std::from_chars(columns, end, width);
    if (error == std::errc() && rest == end && width != 0) return std::max(width, kNarrowest);
  }
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
    return std::max<std::size_t>(size.ws_col, kNarrowest);
  return 0;
}

OutputTarget describe(int descriptor) {
  OutputTarget target;
  target.terminal = ::isatty(descriptor) == 1;
  if (target.terminal) target.width = terminal_width(descriptor);
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  target.no_colour = (no_colour != nullptr && *no_colour != '\0') ||
                     (term != nullptr && std::string_view(term) == "dumb");
  return target;
}

}  // namespace

OutputTarget standard_output() {
  return describe(STDOUT_FILENO);
}

OutputTarget standard_error() {
  return describe(STDERR_FILENO);
}

TerminalStyle style_for(const TerminalOptions& options, const OutputTarget& target,
                        FileLinks::Find find) {
  TerminalStyle style;
  style.colour =
      options.colour == ColourChoice::always ||
      (options.colour == ColourChoice::automatic && target.terminal && !target.no_colour);
  if (style.colour && target.terminal)
    style.links = std::make_shared<FileLinks>(options.links, std::move(find));
  return style;
}

}  // namespace optrace
