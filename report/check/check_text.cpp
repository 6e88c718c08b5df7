#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/check/check_output.h"
#include "report/check/check_wording.h"

namespace optrace {
namespace {

using Status = CheckResult::Status;

}  // namespace

std::string to_text(const std::vector<CheckResult>& results, const TerminalStyle& style) {
  constexpr std::array<std::string_view, 3> kColours = {"32", "31", "33"};
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
                               : style.paint(last ? "at " : "under ", "2") +
                                     printable(step->name + place_of(*step))) +
              "\n";
    }
    constexpr std::size_t kMaxLines = 30;
    const std::vector<std::string> lines = lines_of_places(result, kMaxLines);
    if (!lines.empty()) text += indent + style.paint("by line:", "2") + "\n";
    for (const std::string& line : lines) text += fmt::format("{}  {}\n", indent, printable(line));
  }
  const std::size_t failed = count(results, Status::failed);
  const std::size_t errors = count(results, Status::error);
  text += fmt::format("\n{} of {} rule{} passed{}{}\n", count(results, Status::passed),
                      results.size(), results.size() == 1 ? "" : "s",
                      failed == 0 ? "" : fmt::format(", {} failed", failed),
                      errors == 0 ? "" : fmt::format(", {} could not be decided", errors));
  return text;
}

}  // namespace optrace
