#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/readable_numbers.h"
#include "pytorch/symbols/symbol_name.h"
#include "report/compare/formats/comparison_output.h"
#include "report/model/shortfalls.h"

namespace optrace {
namespace {

std::string describe_shortly(const Report& report, const std::string& label) {
  std::string text = fmt::format("torch {} on {}", report.torch.version, report.device);
  if (report.dry_run) text += fmt::format(", dry run ({})", report.dry_run->arch);
  return label.empty() ? text : fmt::format("{}: {}", label, text);
}

/// Returns a line for each shortfall of the report.
std::string lacks(const Report& report) {
  std::string text;
  for (const Shortfall& shortfall : report.shortfalls)
    text += fmt::format("{:10}incomplete: {}\n", "", sentence_of(shortfall));
  return text;
}

std::string outcome(const Comparison& comparison) {
  const std::size_t differences = comparison.differences.size();
  const std::string text = differences == 0 ? "No difference" : counted(differences, "difference");
  if (comparison.conclusive) return text + (differences == 0 ? ".\n" : "\n");
  return text + (differences == 0 ? " in the recorded part. The recording is incomplete, so it is "
                                    "unknown whether the two "
                                    "are the same.\n"
                                  : " in the recorded part. The recording is incomplete: there may "
                                    "be more differences, "
                                    "and some may be due to missing data.\n");
}

std::string shown_value(const std::string& text) {
  constexpr std::size_t kMaxLength = 160;
  return text.empty() ? std::string("none") : shorten_middle(printable(text), kMaxLength);
}

/// Describes a changed decision, without its place.
std::string decision(const Difference& difference) {
  return fmt::format("{}: {} → {}", difference.what, shown_value(difference.before),
                     shown_value(difference.after));
}

/// Lists at most `most` names in one line.
std::string enumerated(const std::vector<std::string>& names, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : ", ", printable(names[i]));
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

/// Describes the difference in a step, without the path to it.
std::string statement(const Difference& difference) {
  constexpr std::size_t kMaxReached = 4;
  std::string line = printable(difference.path.back());
  switch (difference.kind) {
    case Difference::Kind::changed:
      if (difference.what == "function")
        return fmt::format("{} → {}", shown_value(difference.before),
                           shown_value(difference.after));
      return fmt::format("{}  {}", line, decision(difference));
    case Difference::Kind::count:
      return fmt::format("{}  ×{} → ×{}", line, difference.before, difference.after);
    case Difference::Kind::vanished:
    case Difference::Kind::appeared:
      break;
  }
  if (difference.frames > 1) line += fmt::format(", and {} below", difference.frames - 1);
  const std::string reached = enumerated(difference.reaches, kMaxReached);
  return reached.empty() ? line : fmt::format("{}: {}", line, reached);
}

std::string stack_above(const Difference& difference) {
  constexpr std::size_t kShownAbove = 5;  // JSON contains all.
  const std::size_t above = difference.stack.size();
  const std::size_t first_shown = above - std::min(above, kShownAbove);
  std::string stack = first_shown == 0 ? "" : "… > ";
  for (std::size_t i = first_shown; i < above; ++i)
    stack += fmt::format("{}{}", i == first_shown ? "" : " > ", printable(difference.stack[i]));
  return stack;
}

/// Differences shown in one line: the same difference of one step at several places, or the same
/// change of the dispatch key of several ops.
struct Group {
  const Difference* first = nullptr;
  std::vector<std::string> names;  // Names of the steps, each once.
  std::size_t places = 0;
};

std::vector<Group> grouped(const std::vector<Difference>& differences) {
  std::vector<Group> groups;
  std::unordered_map<std::string, std::size_t> known;
  for (const Difference& difference : differences) {
    const bool of_any_op = difference.what == "dispatch_key";
    const auto [at, is_new] =
        known.try_emplace(fmt::format("{} {}", static_cast<int>(difference.kind),
                                      of_any_op ? decision(difference) : statement(difference)),
                          groups.size());
    if (is_new) groups.push_back({.first = &difference, .names = {}, .places = 0});
    Group& group = groups[at->second];
    ++group.places;
    if (std::ranges::find(group.names, difference.path.back()) == group.names.end())
      group.names.push_back(difference.path.back());
  }
  return groups;
}

std::string listed(const std::vector<Difference>& differences, const TerminalStyle& style) {
  constexpr std::array<std::string_view, 4> kColours = {kRed, kGreen, kYellow, kCyan};
  constexpr std::size_t kColumns = 10;
  constexpr std::size_t kMaxNames = 6;
  std::string text;
  for (const Group& group : grouped(differences)) {
    const std::string_view name = name_of(group.first->kind);
    const std::string line =
        group.names.size() == 1
            ? statement(*group.first)
            : fmt::format("{}  {}", enumerated(group.names, kMaxNames), decision(*group.first));
    text += fmt::format("{}{}{}\n",
                        style.paint(name, kColours[static_cast<std::size_t>(group.first->kind)]),
                        std::string(kColumns - name.size(), ' '), line);
    std::string stack = group.names.size() == 1 ? stack_above(*group.first) : "";
    if (!stack.empty()) stack.insert(0, "under ");
    if (group.places > 1) {
      stack += stack.empty() ? fmt::format("at {}", counted(group.places, "place"))
                             : fmt::format(", and at {}", counted(group.places - 1, "more place"));
    }
    if (!stack.empty())
      text += fmt::format("{}{}\n", std::string(kColumns, ' '), style.paint(stack, kDim));
  }
  return text;
}

std::string fused_line_texts(const std::vector<FusedLineChange>& changes) {
  constexpr std::size_t kMaxNames = 6;
  if (changes.empty()) return {};
  const auto shown = [](const std::vector<std::string>& names) {
    return names.empty() ? "nothing" : enumerated(names, kMaxNames);
  };
  std::string text = "Lines whose ops torch.compile fused:\n";
  for (const FusedLineChange& change : changes)
    text += fmt::format("{:10}{}:{}  {} → {}\n", "",
                        printable(std::filesystem::path(change.file).filename().string()),
                        change.line, shown(change.before), shown(change.after));
  return text + "\n";
}

}  // namespace

std::string to_text(const Report& first, const Report& second, const Comparison& comparison,
                    const ComparisonLabels& labels, const TerminalStyle& style) {
  std::string text = fmt::format("-         {}\n{}+         {}\n{}\n",
                                 printable(describe_shortly(first, labels.first)), lacks(first),
                                 printable(describe_shortly(second, labels.second)), lacks(second));
  text += listed(comparison.differences, style);
  if (!comparison.differences.empty()) text += '\n';
  if (!comparison.not_known.empty()) {
    text += "Unknown in a dry run, and not counted as differences:\n";
    text += listed(comparison.not_known, style) + "\n";
  }
  text += fused_line_texts(comparison.fused_lines);
  text += outcome(comparison);
  if (comparison.passed_over_first + comparison.passed_over_second > 0) {
    text += style.paint(
                fmt::format("Different builds of PyTorch: {} between the steps only in the first, "
                            "{} only in the second (inlined, moved or new); --all lists them.",
                            counted(comparison.passed_over_first, "function"),
                            comparison.passed_over_second),
                "2") +
            "\n";
  }
  if (comparison.emulated_reads > 0) {
    text += style.paint(fmt::format("The host read emulated values in {}; the calls after that "
                                    "may differ on a GPU.",
                                    counted(comparison.emulated_reads, "frame")),
                        "2") +
            "\n";
  }
  return text;
}

}  // namespace optrace
