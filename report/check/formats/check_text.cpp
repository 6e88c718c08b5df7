#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "present/readable_numbers.h"
#include "report/check/formats/check_messages.h"
#include "report/check/formats/check_output.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;

// Same as place_of(), with a link.
std::string linked_place(const CheckStep& step, const TerminalStyle& style) {
  if (step.file.empty()) return {};
  return "  " + style.link(printable(place_text(step.file, step.line, step.exact)),
                           {.file = step.file, .line = step.line});
}

// Returns the line of lines_of_places() about a place, with a link. `place` is null for a line
// about others.
std::string linked_line(const std::string& line, const CheckPlace* place,
                        const TerminalStyle& style) {
  const std::string shown = place == nullptr ? "" : fmt::format("{}:{}", place->file, place->line);
  if (shown.empty() || !line.starts_with(shown)) return printable(line);
  return style.link(printable(shown), {.file = place->file, .line = place->line}) +
         printable(std::string_view(line).substr(shown.size()));
}

}  // namespace

std::string to_text(const std::vector<CheckResult>& results, const TerminalStyle& style) {
  constexpr std::array<std::string_view, 3> kColours = {kGreen, kRed, kYellow};
  constexpr std::size_t kColumns = 8;
  std::string text;
  for (const CheckResult& result : results) {
    const std::string_view name = name_of(result.status);
    text += fmt::format("{}{}{}: {}\n",
                        style.paint(name, kColours[static_cast<std::size_t>(result.status)]),
                        std::string(kColumns - name.size(), ' '), printable(result.rule.name),
                        printable(result.found));
    const std::string indent(kColumns, ' ');
    if (result.rule.name != result.rule.text)
      text += fmt::format("{}expected: {}\n", indent, printable(result.rule.text));
    if (result.status == Status::passed) continue;
    if (!result.rule.because.empty())
      text += fmt::format("{}because {}\n", indent, printable(result.rule.because));
    if (!result.remedy.empty()) text += fmt::format("{}{}\n", indent, printable(result.remedy));
    for (const CheckStep* const step : shown_steps(result.path)) {
      const bool last = step == &result.path.back();
      text += indent +
              (step == nullptr ? "…"
                               : style.paint(last ? "at " : "under ", kDim) +
                                     printable(step->name) + linked_place(*step, style)) +
              "\n";
    }
    constexpr std::size_t kMaxLines = 30;
    const std::vector<std::string> lines = lines_of_places(result, kMaxLines);
    if (!lines.empty()) text += indent + style.paint("by line:", kDim) + "\n";
    for (std::size_t i = 0; i < lines.size(); ++i)
      text += fmt::format(
          "{}  {}\n", indent,
          linked_line(lines[i], i < result.places.size() ? &result.places[i] : nullptr, style));
  }
  const std::size_t failed = count(results, Status::failed);
  const std::size_t errors = count(results, Status::error);
  text += fmt::format("\n{} of {} passed{}{}\n", count(results, Status::passed),
                      counted(results.size(), "rule"),
                      failed == 0 ? "" : fmt::format(", {} failed", failed),
                      errors == 0 ? "" : fmt::format(", {} could not be decided", errors));
  return text;
}

}  // namespace optrace
