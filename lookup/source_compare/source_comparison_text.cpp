#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "lookup/source_compare/source_comparison_output.h"
#include "platform/text/printable_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

std::string source_line(const ComparedSource& source) {
  std::string text = printable(source.label) + ": torch " + printable(source.torch_version);
  if (!source.git_version.empty())
    text += ", commit " + printable(source.git_version.substr(0, 12));
  return text;
}

std::string value(const std::string& text) {
  constexpr std::size_t kMaxLength = 240;
  return text.empty() ? "none" : shorten_middle(printable(text), kMaxLength);
}

// Returns `kernel CPU  at::native::a → at::native::b`, indented.
std::string line_of(const OpChange& change) {
  std::string what(name_of(change.kind));
  if (change.kind == OpChange::Kind::property) what.clear();
  if (!change.key.empty()) what += (what.empty() ? "" : " ") + printable(change.key);
  return fmt::format("    {}: {} → {}\n", what, value(change.before), value(change.after));
}

std::string place_after_name(const std::string& file, std::uint32_t line) {
  return file.empty() ? std::string() : fmt::format("  {}:{}", printable(file), line);
}

std::string heading(std::string_view what, std::size_t count) {
  return fmt::format("\n{}: {}\n", what, count);
}

void list_declared(std::string& text, const std::vector<ComparedOp>& ops, std::string_view what,
                   std::string_view sign, std::string_view colour, const TerminalStyle& style) {
  if (ops.empty()) return;
  text += heading(what, ops.size());
  for (const ComparedOp& op : ops) {
    const std::size_t scope = op.name.find("::");
    const std::string_view space = std::string_view(op.name).substr(0, scope);
    const std::string shown = op.schema.empty() ? op.name : fmt::format("{}::{}", space, op.schema);
    text += fmt::format("  {} {}{}\n", style.paint(sign, colour), value(shown),
                        style.paint(place_after_name(op.file, op.line), kDim));
  }
}

void list_decompositions(std::string& text, const std::vector<PythonDecomposition>& list,
                         std::string_view sign, std::string_view colour,
                         const TerminalStyle& style) {
  for (const PythonDecomposition& one : list)
    text += fmt::format("  {} {}{}\n", style.paint(sign, colour), printable(one.name),
                        style.paint(place_after_name(one.file, one.line), kDim));
}

}  // namespace

std::string to_text(const SourceComparison& comparison, const ComparedSource& first,
                    const ComparedSource& second, const TerminalStyle& style) {
  std::string text = fmt::format("- {}\n+ {}\n", source_line(first), source_line(second));
  list_declared(text, comparison.removed, "Ops removed", "-", kRed, style);
  list_declared(text, comparison.added, "Ops added", "+", kGreen, style);
  if (!comparison.changed.empty()) text += heading("Ops changed", comparison.changed.size());
  for (const ComparedOp& op : comparison.changed) {
    text += fmt::format("  {}\n", printable(op.name));
    for (const OpChange& change : op.changes) text += line_of(change);
  }
  if (!comparison.fallbacks.empty())
    text += heading("Fallbacks for all ops changed", comparison.fallbacks.size());
  for (const OpChange& change : comparison.fallbacks)
    text += fmt::format("  {}: {} → {}\n", printable(change.key), value(change.before),
                        value(change.after));
  const std::size_t decompositions =
      comparison.decompositions_removed.size() + comparison.decompositions_added.size();
  if (decompositions != 0) text += heading("Decompositions in Python", decompositions);
  list_decompositions(text, comparison.decompositions_removed, "-", kRed, style);
  list_decompositions(text, comparison.decompositions_added, "+", kGreen, style);
  const std::size_t differences = comparison.differences();
  text += differences == 0
              ? "\nNo difference.\n"
              : fmt::format("\n{} added, {} removed, {} changed.\n", comparison.added.size(),
                            comparison.removed.size(), comparison.changed.size());
  for (const std::string& lacking : comparison.not_compared)
    text += style.paint(fmt::format("Incomplete: {}.", printable(lacking)), kDim) + "\n";
  return text;
}

}  // namespace optrace
