#include "src/doctor/doctor_output.h"

#include <algorithm>
#include <cstddef>

#include <fmt/core.h>

#include "platform/text/printable_text.h"

namespace optrace {
namespace {

constexpr std::size_t kStateColumns = 9;
constexpr std::size_t kIdColumns = 14;

std::string_view colour_of(CheckState state) {
  switch (state) {
    case CheckState::ok:
      return kGreen;
    case CheckState::limited:
      return kYellow;
    case CheckState::missing:
      return kRed;
    case CheckState::skipped:
      break;
  }
  return kDim;
}

/// Returns the lines of a text, with the further ones indented below the first.
std::string indented(std::string_view text) {
  std::string lines;
  for (const char c : printable_lines(text)) {
    lines += c;
    if (c == '\n') lines.append(kStateColumns + kIdColumns, ' ');
  }
  return lines;
}

std::string verdict(const std::vector<DoctorCheck>& checks) {
  const auto limited = std::ranges::count(checks, CheckState::limited, &DoctorCheck::state);
  if (!is_usable(checks)) return "Something essential is missing: see above.\n";
  if (limited == 0) return "Everything works.\n";
  return fmt::format(
      "Everything essential works; {} limited.\n",
      limited == 1 ? std::string("1 thing is") : fmt::format("{} things are", limited));
}

}  // namespace

std::string to_text(const std::vector<DoctorCheck>& checks, const TerminalStyle& style) {
  std::string text;
  for (const DoctorCheck& check : checks) {
    text += fmt::format(
        "{}{}{}\n",
        style.paint(padded(name_of(check.state), kStateColumns), colour_of(check.state)),
        padded(check.id, kIdColumns), indented(check.found));
    if (!check.remedy.empty())
      text += std::string(kStateColumns + kIdColumns, ' ') + indented(check.remedy) + '\n';
  }
  return text + '\n' + verdict(checks);
}

}  // namespace optrace
