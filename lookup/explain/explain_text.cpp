#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lookup/calls/path_tree.h"
#include "lookup/explain/dispatch_groups.h"
#include "lookup/explain/explain_messages.h"
#include "lookup/explain/explain_output.h"
#include "platform/text/joined.h"
#include "present/terminal_text.h"
#include "pytorch/source/source_files.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kNameColumns = 46;  // Names are padded to this.
constexpr std::size_t kMaxOps = 6;        // Ops that a backward function calls.
constexpr std::size_t kMaxStubs = 3;

class ExplanationTextWriter {
 public:
  ExplanationTextWriter(const Explanation& it, const IndexedSource& source,
                        const ExplainTextOptions& options)
      : it_(it), source_(source), options_(options), link_(source.git_version, source.version) {}

  std::string write() {
    header();
    dispatch();
    stubs();
    derivatives();
    for (const DevicePaths& device : it_.devices) call_paths(device);
    return std::move(text_);
  }

 private:
  std::string paint(std::string_view text, std::string_view sgr) const {
    return options_.style.paint(text, sgr);
  }
  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(field_line(name, content, options_.style));
  }
  void title(std::string_view text) {
    line("");
    line(paint(text, kBold));
  }

  std::string place(const SourceLocation& location) const {
    if (location.file.empty()) return {};
    return options_.style.link(printable(place_text(location, source_)),
                               {.file = std::string(location.file),
                                .line = location.line,
                                .url = link_.of_native(location.file, location.line)});
  }

  void row(std::size_t indent, std::string_view name, std::string_view colour,
           const std::string& location, std::string_view note = {}) {
    const std::size_t width = kNameColumns > indent ? kNameColumns - indent : 0;
    std::string text(indent, ' ');
    text += paint(padded(name, width), colour);
    if (!location.empty()) text += "  " + location;
    if (!note.empty()) text += "  " + paint(note, kDim);
    line(text);
  }

  void header() {
    line(paint(printable(it_.name), kBold));
    if (!it_.spelled.by_way_of.empty()) field("query", printable(it_.spelled.by_way_of));
    if (!it_.facts.schema.empty()) field("schema", printable(it_.facts.schema));
    if (it_.entry)
      field("yaml", place(it_.entry->location));
    else if (it_.declaration)
      field("declared", place(it_.declaration->location));
    field("source", printable(source_sentence(source_)));
    overloads();
    const OpFacts& facts = it_.facts;
    if (!facts.variants.empty()) field("in Python", printable(joined(python_names(it_), ", ")));
    if (!facts.tags.empty()) field("tags", printable(joined(facts.tags, ", ")));
    bool first = true;
    for (const std::string& sentence : it_.words) {
      field(first ? "in words" : "", printable(sentence));
      first = false;
    }
  }

  void overloads() {
    const std::vector<std::string> others = other_overloads(it_);
    if (others.empty()) return;
    constexpr std::size_t kMax = 8;
    std::string text = joined(
        std::span(others.begin(),
                  others.begin() + static_cast<std::ptrdiff_t>(std::min(others.size(), kMax))),
        ", ");
    if (others.size() > kMax) text += fmt::format(" and {} more", others.size() - kMax);
    field("overloads",
          printable(fmt::format(
              "{}{}",
              it_.spelled.chosen_by_user ? "others: " : "this is the default overload; others: ",
              text)));
  }

  // Keys with the same kernel for the same reason share a row.
  void dispatch() {
    title("Dispatch table");
    for (const DispatchGroup& group : dispatch_groups(it_.keys, options_.all))
      entry(*group.first, group.keys);
    if (options_.all) return;
    const auto left = static_cast<std::size_t>(
        std::ranges::count_if(it_.keys, [](const auto& key) { return !is_essential(key); }));
    if (left != 0) line(paint(fmt::format("  and {} more keys: --all", left), kDim));
  }

  void entry(const ExplainedKey& key, const std::vector<std::string_view>& keys) {
    line(fmt::format("  {}  {}", paint(printable(joined(keys, ", ")), kOpColour),
                     paint(reason_of(key), kDim)));
    for (const KernelFunction& one : key.functions)
      row(4, printable(short_name(one.name)), kFunctionColour, place(one.location),
          one.role == "kernel" ? "" : one.role);
    if (key.entry.registration)
      row(4, paint("registered", kDim), "", place(key.entry.registration->location));
  }

  void stubs() {
    if (it_.stubs.empty()) return;
    title("Stubs");
    std::size_t shown = 0;
    for (const ExplainedStub& stub : it_.stubs) {
      if (!options_.all && shown++ == kMaxStubs) {
        line(paint(fmt::format("  and {} more: --all", it_.stubs.size() - kMaxStubs), kDim));
        return;
      }
      row(2, printable(short_name(stub.name)), kOpColour, place(stub.location));
      for (const auto& [one, keys] : stub_kernels(stub))
        row(4,
            one->function.empty() ? "none" : printable(short_name(qualified_name(one->function))),
            kFunctionColour, place(one->location), printable(joined(keys, ", ")));
    }
  }

  void derivatives() {
    if (it_.derivatives.empty()) return;
    title("Derivative");
    for (const ExplainedDerivative& one : it_.derivatives) {
      const OpFacts::Derivative& facts = one.facts;
      row(2, printable(node_name(facts)), kFunctionColour, place(one.location));
      for (const OpFacts::Formula& formula : facts.backward)
        this->formula(joined(formula.arguments, ", "), formula);
      for (const OpFacts::Formula& formula : facts.forward)
        this->formula(fmt::format("forward mode, {}", joined(formula.arguments, ", ")), formula);
      std::vector<std::string> ops;
      for (const CalledOp& op : one.ops)
        if (options_.all || !op.housekeeping)
          ops.push_back(
              fmt::format("{} ({})", op.name, line_suffix(op.line, op.approximate, source_)));
      if (ops.empty()) continue;
      const std::size_t shown = options_.all ? ops.size() : std::min(ops.size(), kMaxOps);
      std::string text =
          joined(std::span(ops.begin(), ops.begin() + static_cast<std::ptrdiff_t>(shown)), ", ");
      if (shown < ops.size()) text += fmt::format(" and {} more", ops.size() - shown);
      line(fmt::format("    {} {}", paint("calls", kDim), printable(text)));
    }
  }

  void formula(const std::string& of, const OpFacts::Formula& formula) {
    line(fmt::format("    {}  {}", paint(printable(of) + ":", kDim), printable(formula.text)));
    line(fmt::format("      {}", place({kDerivativesFile, formula.line})));
  }

  void call_paths(const DevicePaths& device) {
    title(fmt::format("Call path on {}", printable(device.device)));
    if (device.paths.empty()) {
      line(
          "  no path was found in the source: there is no kernel, or the index has nothing below "
          "it");
      return;
    }
    const PathTree tree = path_tree(device.paths, options_.all);
    for (const PathTreeNode& root : tree.roots) node(root, "", "");
    if (tree.left_out != 0)
      line(paint(fmt::format("  and {} more endpoints: --all", tree.left_out), kDim));
  }

  static constexpr std::size_t kTreeColumns = 58;

  void node(const PathTreeNode& at, const std::string& branch, const std::string& below) {
    const PathStep& step = *at.step;
    const bool op = step.kind == StepKind::op;
    const std::string name = name_of(step);
    const std::string note = note_of(at);
    const std::string_view colour = op || step.kind == StepKind::stub ? kOpColour
                                    : step.kind == StepKind::function ? kFunctionColour
                                                                      : kLibraryColour;
    std::string row = "  " + paint(branch, kDim) + paint(printable(name), colour);
    std::size_t width = 2 + columns(branch) + columns(printable(name));
    if (!note.empty()) {
      row += "  " + paint(printable(note), kDim);
      width += 2 + columns(printable(note));
    }
    if (width < kTreeColumns) row.append(kTreeColumns - width, ' ');
    if (!step.location.file.empty()) row += "  " + place(step.location);
    if (at.call_line != 0)
      row += paint("  called at " + line_suffix(at.call_line, at.call_approximate, source_), kDim);
    line(row);
    if (at.children.empty() && !at.stopped.empty())
      line(
          fmt::format("  {}{}", paint(below, kDim),
                      paint(printable(fmt::format("the search ends here: {}", at.stopped)), kDim)));
    const bool fork = at.children.size() > 1;
    for (std::size_t i = 0; i < at.children.size(); ++i) {
      const bool last = i + 1 == at.children.size();
      node(at.children[i], fork ? below + (last ? "└─ " : "├─ ") : below,
           fork ? below + (last ? "   " : "│  ") : below);
    }
  }

  const Explanation& it_;
  const IndexedSource& source_;
  const ExplainTextOptions& options_;
  SourceLink link_;
  std::string text_;
};

}  // namespace

std::string to_text(const Explanation& explanation, const IndexedSource& source,
                    const ExplainTextOptions& options) {
  return ExplanationTextWriter(explanation, source, options).write();
}

}  // namespace optrace
