#include "src/language_server/name_answers.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <fmt/core.h>

#include "indexer/store/source_link.h"
#include "lookup/explain/explain_messages.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "pytorch/names/op_name.h"
#include "pytorch/source/source_files.h"

namespace optrace {
namespace {

constexpr std::string_view kOps = "torch.ops.";

std::vector<const Index*> pointers(const std::vector<Index>& indexes) {
  std::vector<const Index*> result;
  result.reserve(indexes.size());
  for (const Index& index : indexes) result.push_back(&index);
  return result;
}

/// Returns text as code in Markdown, on one line.
std::string code(std::string_view text) {
  std::string plain = printable(text);
  std::erase(plain, '`');
  return fmt::format("`{}`", plain);
}

/// Returns a place as Markdown, with a link if there is one.
std::string place(std::string_view file, std::uint32_t line, const std::string& url) {
  if (file.empty()) return {};
  const std::string text = fmt::format("{}:{}", file, line);
  return url.empty() ? code(text) : fmt::format("[{}]({})", code(text), printable(url));
}

std::string line_of(std::string_view role, const Located& located) {
  return fmt::format("{} {} {}\n\n", role, code(located.name),
                     place(located.file, located.line, located.url));
}

}  // namespace

NameAnswers::NameAnswers(SelectedIndex choice)
    : choice_(std::move(choice)),
      indexes_(choice_.index, choice_.projects),
      sources_(choice_),
      locator_(choice_.index, pointers(choice_.projects)) {}

std::optional<LocateResult> NameAnswers::find(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.starts_with(kOps) && locator_.python_names(name).empty()) continue;
    LocateResult found = locator_.locate(name);
    if (!found.answers.empty()) return found;
  }
  return std::nullopt;
}

void NameAnswers::add_place(const Located& located, std::vector<LocalPlace>& places) const {
  LocalPlace found{.file = sources_.find(located.file), .line = std::max(located.line, 1U)};
  if (!found.file.empty() && std::ranges::find(places, found) == places.end())
    places.push_back(std::move(found));
}

std::vector<LocalPlace> NameAnswers::definitions(const LocateResult& found) const {
  std::vector<LocalPlace> places;
  std::vector<const Located*> ops;
  for (const Located& answer : found.answers) {
    if (answer.kind == LocatedKind::op) ops.push_back(&answer);
    for (const Located& part : answer.parts)
      if (part.kind == LocatedKind::op) ops.push_back(&part);
    if (answer.kind != LocatedKind::op && answer.kind != LocatedKind::python_builtin)
      add_place(answer, places);
  }
  for (const Located* const op : ops)
    for (const Located& kernel : op->parts) add_place(kernel, places);
  for (const Located& answer : found.answers)
    if (answer.kind == LocatedKind::python_builtin) add_place(answer, places);
  if (places.empty())
    for (const Located* const op : ops) add_place(*op, places);
  return places;
}

std::string NameAnswers::derivative_text(const std::string& op) const {
  const auto entry = indexes_.find_op(unambiguous_name(op));
  if (!entry || entry->name != op) return {};
  const OpFacts facts = indexes_.facts_of(*entry);
  const SourceLink links(choice_.index.git_version(), choice_.index.torch_version());
  std::string text;
  if (!facts.schema.empty()) text += code(facts.schema) + "\n\n";
  for (const OpFacts::Derivative& derivative : facts.derivatives) {
    if (derivative.node.empty()) continue;
    text += fmt::format("derivative {} {}\n\n", code(node_name(derivative)),
                        place(kDerivativesFile, derivative.line,
                              links.of_native(kDerivativesFile, derivative.line)));
    for (const OpFacts::Formula& formula : derivative.backward)
      text += fmt::format("- {}: {}\n", code(joined(formula.arguments, ", ")), code(formula.text));
    text += '\n';
  }
  return text;
}

std::string NameAnswers::op_text(const Located& op) const {
  std::string text = line_of("**op**", op) + derivative_text(op.name);
  if (op.parts.empty()) return text;
  text += "| dispatch key | kernel | |\n| --- | --- | --- |\n";
  for (const Located& kernel : op.parts)
    text += fmt::format("| {} | {} | {} |\n", printable(kernel.key), code(kernel.name),
                        place(kernel.file, kernel.line, kernel.url));
  return text + '\n';
}

std::string NameAnswers::description(const LocateResult& found) const {
  std::string text;
  for (const Located& answer : found.answers) {
    if (answer.kind == LocatedKind::op) {
      text += op_text(answer);
      continue;
    }
    text += answer.kind == LocatedKind::python_builtin
                ? fmt::format("**{}** {}\n\n", name_of(answer.kind), code(answer.name))
                : line_of(fmt::format("**{}**", name_of(answer.kind)), answer);
    for (const Located& part : answer.parts)
      text += part.kind == LocatedKind::op ? op_text(part) : line_of(part.role, part);
  }
  if (!choice_.exact)
    text +=
        fmt::format("Lines are those of PyTorch {}.\n", printable(choice_.index.torch_version()));
  return text;
}

}  // namespace optrace
