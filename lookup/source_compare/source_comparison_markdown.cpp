#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "lookup/source_compare/source_comparison_output.h"
#include "platform/text/printable_text.h"

namespace optrace {
namespace {

// Returns the text as code. Its fence is longer than any run of backquotes in it, and a vertical
// bar does not end the cell of a table.
std::string code(std::string_view text) {
  const std::string shown = printable(text);
  if (shown.empty()) return "none";
  std::size_t longest = 0;
  std::size_t run = 0;
  std::string escaped;
  for (const char character : shown) {
    run = character == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (character == '|') escaped += '\\';
    escaped += character;
  }
  const std::string fence(longest + 1, '`');
  const std::string_view space = longest == 0 ? "" : " ";
  return fmt::format("{}{}{}{}{}", fence, space, escaped, space, fence);
}

std::string place_in_brackets(const std::string& file, std::uint32_t line) {
  return file.empty() ? std::string()
                      : fmt::format(" ({})", code(fmt::format("{}:{}", file, line)));
}

std::string source_markdown(const ComparedSource& source) {
  std::string text = fmt::format("torch {}", code(source.torch_version));
  if (!source.git_version.empty()) text += fmt::format(", commit {}", code(source.git_version));
  return text;
}

void list_declared(std::string& text, const std::vector<ComparedOp>& ops, std::string_view what) {
  if (ops.empty()) return;
  text += fmt::format("\n## {} ({})\n\n", what, ops.size());
  for (const ComparedOp& op : ops)
    text +=
        fmt::format("- {}{}{}\n", code(op.name), op.schema.empty() ? "" : ": " + code(op.schema),
                    place_in_brackets(op.file, op.line));
}

std::string table_of(const std::vector<OpChange>& changes) {
  std::string text = "| what | before | after |\n| --- | --- | --- |\n";
  for (const OpChange& change : changes)
    text += fmt::format("| {}{} | {} | {} |\n", name_of(change.kind),
                        change.key.empty() ? "" : " " + code(change.key), code(change.before),
                        code(change.after));
  return text;
}

void list_decompositions(std::string& text, const std::vector<PythonDecomposition>& list,
                         std::string_view what) {
  if (list.empty()) return;
  text += fmt::format("\n## {} ({})\n\n", what, list.size());
  for (const PythonDecomposition& one : list)
    text += fmt::format("- {}{}\n", code(one.name), place_in_brackets(one.file, one.line));
}

}  // namespace

std::string to_markdown(const SourceComparison& comparison, const ComparedSource& first,
                        const ComparedSource& second) {
  std::string text =
      fmt::format("# What changed from {} to {}\n\nBefore: {}  \nAfter: {}\n", code(first.label),
                  code(second.label), source_markdown(first), source_markdown(second));
  for (const std::string& lacking : comparison.not_compared)
    text += fmt::format("\nIncomplete: {}.\n", code(lacking));
  if (comparison.differences() == 0) return text + "\nNo difference.\n";
  list_declared(text, comparison.removed, "Ops removed");
  list_declared(text, comparison.added, "Ops added");
  if (!comparison.changed.empty())
    text += fmt::format("\n## Ops changed ({})\n", comparison.changed.size());
  for (const ComparedOp& op : comparison.changed)
    text += fmt::format("\n### {}\n\n{}", code(op.name), table_of(op.changes));
  if (!comparison.fallbacks.empty())
    text += fmt::format("\n## Fallbacks for all ops ({})\n\n{}", comparison.fallbacks.size(),
                        table_of(comparison.fallbacks));
  list_decompositions(text, comparison.decompositions_removed, "Decompositions removed");
  list_decompositions(text, comparison.decompositions_added, "Decompositions added");
  return text;
}

}  // namespace optrace
