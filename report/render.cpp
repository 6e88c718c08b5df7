#include "report/render.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/json.h"
#include "report/report.h"
#include "report/tree.h"

namespace optrace {
namespace {

// Narrower than this, a tree can't be laid out; it then runs over the edge.
constexpr std::size_t kNarrowest = 80;

std::size_t terminal_width() {
  if (const char* const columns = std::getenv("COLUMNS"); columns != nullptr) {
    std::size_t width = 0;
    const char* const end = columns + std::strlen(columns);
    const auto [rest, error] = std::from_chars(columns, end, width);
    if (error == std::errc() && rest == end && width != 0) return std::max(width, kNarrowest);
  }
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col != 0)
    return std::max<std::size_t>(size.ws_col, kNarrowest);
  return 0;
}

}  // namespace

OutputTarget standard_output() {
  OutputTarget target;
  target.terminal = ::isatty(STDOUT_FILENO) == 1;
  if (target.terminal) target.width = terminal_width();
  const char* const no_colour = std::getenv("NO_COLOR");
  const char* const term = std::getenv("TERM");
  target.no_colour = (no_colour != nullptr && *no_colour != '\0') ||
                     (term != nullptr && std::string_view(term) == "dumb");
  return target;
}

TerminalStyle style_for(std::string_view colour, const OutputTarget& target) {
  TerminalStyle style;
  style.colour = colour == "always" || (colour == "auto" && target.terminal && !target.no_colour);
  style.links = style.colour && target.terminal;
  return style;
}

std::string render(const Trace& trace, const Index* index, const OutputOptions& options,
                   const OutputTarget& target) {
  const Report report = merge(trace, index, {.all = options.all});
  if (options.format == ReportFormat::json) return to_json(report);
  TreeOptions tree;
  tree.width = target.width;
  tree.all = options.all;
  tree.style.colour =
      options.colour == ColourChoice::always ||
      (options.colour == ColourChoice::automatic && target.terminal && !target.no_colour);
  tree.style.links = tree.style.colour && target.terminal;
  return to_tree(report, tree);
}

}  // namespace optrace
