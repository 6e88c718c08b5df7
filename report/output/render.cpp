#include "report/output/render.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "report/merge/combine.h"
#include "report/merge/merge.h"
#include "report/model/report.h"
#include "report/output/report_json.h"
#include "report/output/report_text.h"

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

TerminalStyle style_for(std::string_view colour, const OutputTarget& target) {
  TerminalStyle style;
  style.colour = colour == "always" || (colour == "auto" && target.terminal && !target.no_colour);
  style.links = style.colour && target.terminal;
  return style;
}

std::string render(const Trace& trace, const Index* index, const OutputOptions& options,
                   const OutputTarget& target) {
  return render(std::span(&trace, 1), index, options, target);
}

std::string render(std::span<const Trace> traces, const Index* index, const OutputOptions& options,
                   const OutputTarget& target) {
  std::vector<Report> reports;
  for (const Trace& trace : traces)
    reports.push_back(merge(trace, index, {.all = options.all, .times = options.times}));
  const Report report = combine(std::move(reports));
  if (options.format == ReportFormat::json) return to_json(report);
  ReportTextOptions tree;
  tree.width = target.width;
  tree.all = options.all;
  tree.why = options.why;
  tree.times = options.times;
  tree.own_trace = options.own_trace;
  tree.style.colour =
      options.colour == ColourChoice::always ||
      (options.colour == ColourChoice::automatic && target.terminal && !target.no_colour);
  tree.style.links = tree.style.colour && target.terminal;
  return to_text(report, tree);
}

}  // namespace optrace
