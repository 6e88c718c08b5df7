#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "report/findings/findings_output.h"
#include "report/model/frame_name.h"

namespace optrace {
namespace {

// Returns the names of the evidence, outermost first, without repetitions. Of a long path, the ends
// are shown.
std::string path_of(const Finding& finding) {
  constexpr std::size_t kEnd = 3;
  std::vector<std::string> names;
  for (const Frame* const frame : finding.evidence)
    if (std::string name = frame_name(*frame); names.empty() || names.back() != name)
      names.push_back(std::move(name));
  if (names.size() > 2 * kEnd) {
    names[kEnd] = "...";
    names.erase(names.begin() + kEnd + 1, names.end() - kEnd);
  }
  return joined(names, " > ");
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, const TerminalStyle& style) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string place = fmt::format("{}:{}", printable(finding.file), finding.line);
    text += fmt::format("{}  {}{}\n", style.paint(finding.rule->name, kBold),
                        style.link(place, {.file = finding.file, .line = finding.line}),
                        finding.cost_ns == 0 ? "" : "  " + readable_time(finding.cost_ns));
    text += fmt::format("  {}\n  {} {}\n", printable(finding.message), finding.rule->why,
                        finding.rule->remedy);
    text += style.paint(fmt::format("  seen: {}", path_of(finding)), kDim) + "\n\n";
  }
  text += findings.empty()       ? "No findings.\n"
          : findings.size() == 1 ? "1 finding\n"
                                 : fmt::format("{} findings\n", findings.size());
  return text;
}

std::string rules_text(const TerminalStyle& style) {
  std::string text;
  for (const FindingRule& rule : finding_rules())
    text += fmt::format("{}: {}\n  {} {}\n", style.paint(rule.name, kBold), rule.title, rule.why,
                        rule.remedy);
  return text;
}

}  // namespace optrace
