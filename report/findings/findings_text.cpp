#include <algorithm>
#include <cstddef>
#include <span>
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
// are shown; in a backward pass, the path begins with its node.
std::string path_of(const Finding& finding) {
  constexpr std::size_t kEnd = 3;
  std::vector<std::string> names;
  const auto node =
      std::find_if(finding.evidence.rbegin(), finding.evidence.rend(),
                   [](const Frame* frame) { return frame->detail->node.has_value(); });
  const std::ptrdiff_t first =
      node == finding.evidence.rend() ? 0 : finding.evidence.rend() - node - 1;
  for (const Frame* const frame :
       std::span(finding.evidence).subspan(static_cast<std::size_t>(first)))
    if (std::string name = frame_name(*frame); names.empty() || names.back() != name)
      names.push_back(std::move(name));
  if (names.size() > 2 * kEnd) {
    names[kEnd] = "...";
    names.erase(names.begin() + kEnd + 1, names.end() - kEnd);
  }
  return joined(names, " > ");
}

// Returns the time and its share of that of all ops: `  1.2 ms, 3.4 % of the time in ops`.
std::string cost_of(const Finding& finding) {
  if (finding.cost_ns == 0) return {};
  std::string text = "  " + readable_time(finding.cost_ns);
  if (finding.share)
    text += *finding.share < 0.0005
                ? ", less than 0.1 % of the time in ops"
                : fmt::format(", {:.1f} % of the time in ops", 100 * *finding.share);
  return text;
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, const TerminalStyle& style) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string place = fmt::format("{}:{}", printable(finding.file), finding.line);
    text += fmt::format("{}  {}{}\n", style.paint(finding.rule->name, kBold),
                        style.link(place, {.file = finding.file, .line = finding.line}),
                        cost_of(finding));
    text += fmt::format("  {}\n", printable(finding.message));
    if (!finding.reason.empty()) text += fmt::format("  {}\n", printable(finding.reason));
    text += fmt::format("  {} {}\n", finding.rule->why, finding.remedy);
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
