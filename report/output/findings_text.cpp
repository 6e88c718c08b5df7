#include <fmt/format.h>

#include "report/model/frame_name.h"
#include "report/output/findings_output.h"
#include "report/output/readable_numbers.h"
#include "report/output/report_header.h"

namespace optrace {
namespace {

// Returns the names of the evidence, outermost first, without repetitions.
std::string path_of(const Finding& finding) {
  std::string path, last;
  for (const Frame* const frame : finding.evidence) {
    const std::string name = frame_name(*frame);
    if (name == last) continue;
    path += fmt::format("{}{}", path.empty() ? "" : " > ", name);
    last = name;
  }
  return path;
}

}  // namespace

std::string to_text(const std::vector<Finding>& findings, const TerminalStyle& style) {
  std::string text;
  for (const Finding& finding : findings) {
    text += fmt::format("{}  {}:{}{}\n", style.paint(finding.rule->name, kBold),
                        printable(finding.file), finding.line,
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
