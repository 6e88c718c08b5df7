#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "indexer/store/source_link.h"
#include "lookup/calls/path_tree.h"
#include "lookup/explain/dispatch_groups.h"
#include "lookup/explain/explain_output.h"
#include "lookup/explain/explain_wording.h"
#include "present/dot_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Colours are light enough for black text on them; shapes distinguish the kinds without colour.
constexpr std::string_view kOpNode = "shape=box, style=\"filled,bold\", fillcolor=\"#fff2cc\"";
constexpr std::string_view kKeyNode = "shape=hexagon, style=filled, fillcolor=\"#cfe2f3\"";
constexpr std::string_view kFunctionNode = "shape=box, style=filled, fillcolor=\"#d9ead3\"";
constexpr std::string_view kStubNode = "shape=box, style=\"filled,rounded\", fillcolor=\"#d0e0e3\"";
constexpr std::string_view kEndNode =
    "shape=box, style=\"filled,diagonals\", fillcolor=\"#f4cccc\"";
constexpr std::string_view kBackwardNode =
    "shape=box, style=\"filled,dashed\", fillcolor=\"#d9d2e9\"";

std::string_view style_of(StepKind kind) {
  switch (kind) {
    case StepKind::op:
      return kOpNode;
    case StepKind::function:
      return kFunctionNode;
    case StepKind::stub:
      return kStubNode;
    default:
      return kEndNode;
  }
}

class DotWriter {
 public:
  DotWriter(const Explanation& it, const ExplanationSource& source, bool all)
      : it_(it), source_(source), all_(all), link_(source.git_version, source.version) {}

  std::string write() {
    text_ = fmt::format(
        "digraph \"{}\" {{\n  rankdir=LR;\n  tooltip=\"{}\";\n"
        "  node [fontname=\"monospace\", fontsize=11];\n"
        "  edge [fontname=\"monospace\", fontsize=9];\n",
        dot_text(it_.name), dot_text(source_sentence(source_)));
    const std::string op = op_node(it_.name);
    for (const DispatchGroup& group : dispatch_groups(it_.keys, all_)) dispatch(op, group);
    for (const DevicePaths& device : it_.devices)
      for (const PathTreeNode& root : path_tree(device.paths, all_).roots) path(root, "");
    for (const ExplainedDerivative& one : it_.derivatives) backward(op, one);
    return std::move(text_) + "}\n";
  }

 private:
  // Returns `n1`. A node with the same identity is written once.
  std::string node(const std::string& identity, std::string_view name, std::string_view note,
                   const SourceLocation& location, std::string_view style) {
    const auto [known, is_new] = nodes_.try_emplace(identity, nodes_.size());
    std::string id = fmt::format("n{}", known->second);
    if (!is_new) return id;
    std::string label = dot_text(name);
    if (!note.empty()) label += "\\n" + dot_text(note);
    if (!location.file.empty()) label += "\\n" + dot_text(place_text(location, source_));
    text_ += fmt::format("  {} [label=\"{}\", {}", id, label, style);
    const std::string url = link_.of_native(location.file, location.line);
    if (!url.empty()) text_ += fmt::format(", URL=\"{}\"", dot_text(url));
    text_ += "];\n";
    return id;
  }

  std::string op_node(const std::string& op) {
    const bool is_own = op == it_.name;
    return node("op " + op, op, {}, is_own && it_.entry ? it_.entry->location : SourceLocation{},
                kOpNode);
  }
  std::string function_node(const std::string& symbol, std::string_view name,
                            const SourceLocation& location, std::string_view note = {}) {
    return node("function " + (symbol.empty() ? std::string(name) : symbol), name, note, location,
                kFunctionNode);
  }

  void edge(const std::string& from, const std::string& to, const std::string& label = {},
            std::string_view style = {}) {
    if (!edges_.emplace(from, to).second) return;
    text_ += fmt::format("  {} -> {} [label=\"{}\"{}{}];\n", from, to, dot_text(label),
                         style.empty() ? "" : ", ", style);
  }

  // From the op to a group of keys, and to the functions of their kernel.
  void dispatch(const std::string& op, const DispatchGroup& group) {
    const std::string names = fmt::format("{}", fmt::join(group.keys, "\n"));
    std::string label;
    constexpr std::size_t kMostKeys = 8;
    for (std::size_t i = 0; i < group.keys.size() && i < kMostKeys; ++i)
      label += (i == 0 ? "" : ", ") + std::string(group.keys[i]);
    if (group.keys.size() > kMostKeys)
      label += fmt::format(" and {} more", group.keys.size() - kMostKeys);
    std::string from = node("keys " + names, label, reason_of(*group.first), {}, kKeyNode);
    edge(op, from);
    // The first function is registered; it calls the others.
    for (const KernelFunction& one : group.first->functions) {
      const std::string to = function_node(one.symbol, short_name(one.name), one.location,
                                           one.role == "kernel" ? "" : one.role);
      edge(from, to);
      if (&one == &group.first->functions.front()) from = to;
    }
  }

  void path(const PathTreeNode& at, const std::string& from) {
    const PathStep& step = *at.step;
    const bool is_new = !nodes_.contains("function " + step.symbol);
    const std::string id =
        step.kind == StepKind::op ? op_node(step.op)
        : step.kind == StepKind::function
            ? function_node(step.symbol, name_of(step), step.location, note_of(at))
            : node("end " + step.symbol, name_of(step), note_of(at), step.location,
                   style_of(step.kind));
    // The keys already lead from the op to its kernels.
    if (!from.empty() && (is_new || from != op_node(it_.name)))
      edge(from, id, line_suffix(at.call_line, at.call_approximate, source_));
    for (const PathTreeNode& child : at.children) path(child, id);
  }

  void backward(const std::string& op, const ExplainedDerivative& one) {
    if (one.facts.node.empty()) return;
    const std::string id = node("node " + one.facts.key + one.facts.node, node_name(one.facts), {},
                                one.location, kBackwardNode);
    edge(op, id, "backward", "style=dashed");
    for (const CalledOp& called : one.ops)
      if (all_ || !called.housekeeping)
        edge(id, op_node(called.name), line_suffix(called.line, called.approximate, source_),
             "style=dashed");
  }

  const Explanation& it_;
  const ExplanationSource& source_;
  bool all_;
  SourceLink link_;
  std::map<std::string, std::size_t> nodes_;
  std::set<std::pair<std::string, std::string>> edges_;
  std::string text_;
};

}  // namespace

std::string to_dot(const Explanation& explanation, const ExplanationSource& source, bool all) {
  return DotWriter(explanation, source, all).write();
}

}  // namespace optrace
