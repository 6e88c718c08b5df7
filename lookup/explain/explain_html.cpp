#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "indexer/store/source_link.h"
#include "lookup/calls/path_tree.h"
#include "lookup/explain/dispatch_groups.h"
#include "lookup/explain/explain_output.h"
#include "lookup/explain/explain_wording.h"
#include "present/html_document.h"
#include "present/markup_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

std::string code(std::string_view text) {
  return fmt::format("<code>{}</code>", markup_text(text));
}

std::string dim(std::string_view text) {
  return text.empty() ? "" : fmt::format(" <span class=\"dim\">{}</span>", markup_text(text));
}

/// Returns a table; `heads` are texts, the cells of `rows` are markup. The first cell of a row is
/// its head.
std::string table(std::string_view style, const std::vector<std::string>& heads,
                  const std::vector<std::vector<std::string>>& rows) {
  std::string text = fmt::format("<table class=\"{}\">", style);
  if (!heads.empty()) text += "<thead><tr>";
  for (const std::string& head : heads)
    text += fmt::format("<th scope=\"col\">{}</th>", markup_text(head));
  text += heads.empty() ? "<tbody>\n" : "</tr></thead><tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    text += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i)
      text += i == 0 ? fmt::format("<th scope=\"row\">{}</th>", row[i])
                     : fmt::format("<td>{}</td>", row[i]);
    text += "</tr>\n";
  }
  return text + "</tbody></table>\n";
}

std::string details(std::string_view summary, std::string_view content) {
  return fmt::format("<details class=\"more\"><summary>{}</summary>\n{}</details>\n", summary,
                     content);
}

std::string memory_of(const SchemaArgument& argument) {
  if (!argument.alias) return "";
  if (argument.out()) return "the result is written to it";
  if (argument.writes()) return "the op writes to it";
  return "shared with a view";
}

std::string memory_of_result(const SchemaArgument& result) {
  if (!result.alias) return "new";
  const std::string sets = fmt::format("{}", fmt::join(result.alias->before, ", "));
  return result.writes() ? fmt::format("the argument that is written to ({})", sets)
                         : fmt::format("a view of an argument ({})", sets);
}

class HtmlWriter {
 public:
  HtmlWriter(const Explanation& it, const ExplanationSource& source)
      : it_(it), source_(source), link_(source.git_version, source.version) {}

  std::string write() {
    text_ = "<main>\n";
    head();
    arguments();
    dispatch();
    stubs();
    derivatives();
    for (const DevicePaths& device : it_.devices) call_paths(device);
    text_ +=
        "</main>\n<footer>Made by <code>optrace explain --format html</code>. Lines are of "
        "the source, not of a run: the arguments of a call determine which path it "
        "takes.</footer>\n";
    return html_document(fmt::format("{}, PyTorch {}", it_.name, source_.version), text_);
  }

 private:
  // Returns markup: `file:line`, linked if the file is in PyTorch's repository.
  std::string place(const SourceLocation& location) const {
    if (location.file.empty()) return {};
    return fmt::format(
        "<code>{}</code>",
        linked_text(place_text(location, source_), link_.of_native(location.file, location.line)));
  }

  void section(std::string_view id, std::string_view title) {
    text_ += fmt::format("<h2 id=\"{}\">{}</h2>\n", id, markup_text(title));
  }

  void head() {
    text_ += fmt::format("<h1>{}</h1>\n", markup_text(it_.name));
    text_ += fmt::format("<p class=\"{}\">{}</p>\n", source_.fit.of_torch ? "dim" : "warning",
                         markup_text(source_sentence(source_)));
    if (!it_.facts.schema.empty())
      text_ += fmt::format("<code class=\"schema\">{}</code>\n", markup_text(it_.facts.schema));
    for (const std::string& sentence : it_.words)
      text_ += fmt::format("<p>{}</p>\n", markup_text(sentence));
    std::vector<std::vector<std::string>> rows;
    const auto row = [&](std::string_view name, std::string content) {
      if (!content.empty()) rows.push_back({std::string(name), std::move(content)});
    };
    row("query", markup_text(it_.spelled.by_way_of));
    row("in Python", code_list(python_names(it_)));
    row("overloads", code_list(other_overloads(it_)));
    row("tags", code_list(it_.facts.tags));
    if (it_.entry)
      row("yaml", place(it_.entry->location));
    else if (it_.declaration)
      row("declared", place(it_.declaration->location));
    text_ += table("facts", {}, rows);
  }

  static std::string code_list(const std::vector<std::string>& texts) {
    std::vector<std::string> parts;
    parts.reserve(texts.size());
    for (const std::string& text : texts) parts.push_back(code(text));
    return fmt::format("{}", fmt::join(parts, ", "));
  }

  void arguments() {
    if (!it_.schema) return;
    std::vector<std::vector<std::string>> rows;
    for (const SchemaArgument& one : it_.schema->arguments)
      rows.push_back({code(one.name) + dim(one.keyword_only ? "by keyword only" : ""),
                      code(one.type), one.default_value ? code(*one.default_value) : "",
                      memory_of(one)});
    for (const SchemaArgument& one : it_.schema->returns)
      rows.push_back({"result" + dim(one.name), code(one.type), "", memory_of_result(one)});
    section("arguments", "Arguments and results");
    text_ += table("", {"argument", "type", "default", "memory"}, rows);
  }

  std::vector<std::string> dispatch_row(const DispatchGroup& group) const {
    std::string functions;
    for (const KernelFunction& one : group.first->functions)
      functions += fmt::format("<li>{}{} {}</li>", code(short_name(one.name)),
                               dim(one.role == "kernel" ? "" : one.role), place(one.location));
    const auto& registration = group.first->entry.registration;
    std::vector<std::string> keys;
    keys.reserve(group.keys.size());
    for (const std::string_view key : group.keys) keys.push_back(markup_text(key));
    return {fmt::format("{}", fmt::join(keys, ", ")), markup_text(reason_of(*group.first)),
            functions.empty() ? "" : fmt::format("<ul>{}</ul>", functions),
            registration ? place(registration->location) : ""};
  }

  std::string dispatch_table(const std::vector<DispatchGroup>& groups) const {
    std::vector<std::vector<std::string>> rows;
    rows.reserve(groups.size());
    for (const DispatchGroup& group : groups) rows.push_back(dispatch_row(group));
    return table("dispatch", {"dispatch key", "reason", "kernel", "registered at"}, rows);
  }

  void dispatch() {
    section("dispatch", "Dispatch table");
    text_ +=
        "<p class=\"dim\">The keys of the common backends, of autograd and of autocast, in "
        "the dispatcher's order.</p>\n";
    text_ += dispatch_table(dispatch_groups(it_.keys, false));
    const std::vector<DispatchGroup> all = dispatch_groups(it_.keys, true);
    text_ += details(fmt::format("all {} keys", it_.keys.size()), dispatch_table(all));
  }

  void stubs() {
    if (it_.stubs.empty()) return;
    section("stubs", "Stubs");
    std::vector<std::vector<std::string>> rows;
    for (const ExplainedStub& stub : it_.stubs) {
      std::string kernels;
      for (const auto& [one, keys] : stub_kernels(stub))
        kernels += fmt::format(
            "<li>{}{} {}</li>",
            one->function.empty() ? "none" : code(short_name(qualified_name(one->function))),
            dim(fmt::format("{}", fmt::join(keys, ", "))), place(one->location));
      rows.push_back(
          {code(short_name(stub.name)), place(stub.location), fmt::format("<ul>{}</ul>", kernels)});
    }
    text_ += table("", {"stub", "declared at", "kernels, by device and CPU capability"}, rows);
  }

  void derivatives() {
    section("derivative", "Derivative");
    if (it_.derivatives.empty())
      text_ +=
          "<p>derivatives.yaml has no entry for the op. If its kernel consists of other ops, "
          "autograd differentiates those.</p>\n";
    for (const ExplainedDerivative& one : it_.derivatives) derivative(one);
  }

  void derivative(const ExplainedDerivative& one) {
    text_ += fmt::format("<h3>{} {}</h3>\n", code(node_name(one.facts)), place(one.location));
    std::vector<std::vector<std::string>> rows;
    const auto add = [&](std::string_view mode, const std::vector<OpFacts::Formula>& formulas) {
      for (const OpFacts::Formula& formula : formulas)
        rows.push_back({code(fmt::format("{}", fmt::join(formula.arguments, ", "))),
                        std::string(mode), code(formula.text),
                        place({kDerivativesFile, formula.line})});
    };
    add("backward", one.facts.backward);
    add("forward mode", one.facts.forward);
    if (!rows.empty()) text_ += table("", {"gradient of", "mode", "formula", "declared at"}, rows);
    called_ops(one);
  }

  void called_ops(const ExplainedDerivative& one) {
    std::string work;
    std::string housekeeping;
    for (const CalledOp& op : one.ops)
      (op.housekeeping ? housekeeping : work) += fmt::format(
          "<li>{} {}</li>\n", code(op.name), place({one.location.file, op.line, op.approximate}));
    if (!work.empty())
      text_ += fmt::format("<p>Its <code>apply</code> calls:</p>\n<ul>\n{}</ul>\n", work);
    if (!housekeeping.empty())
      text_ += details("ops that only create, copy or inspect tensors",
                       fmt::format("<ul>\n{}</ul>\n", housekeeping));
  }

  void call_paths(const DevicePaths& device) {
    section("paths-" + device.key, "Call paths on " + device.device);
    if (device.paths.empty()) {
      text_ +=
          "<p>No path was found in the source: there is no kernel, or the index has nothing "
          "below it.</p>\n";
      return;
    }
    const PathTree likeliest = path_tree(device.paths, false);
    text_ += tree_of(likeliest);
    if (likeliest.left_out != 0)
      text_ += details(fmt::format("all {} endpoints, with every step", device.paths.size()),
                       tree_of(path_tree(device.paths, true)));
  }

  std::string tree_of(const PathTree& tree) const {
    std::string text = "<div class=\"path\">\n";
    for (const PathTreeNode& root : tree.roots) write_node(root, text);
    return text + "</div>\n";
  }

  // A step with one step after it does not nest it, so that a long path stays readable.
  void write_node(const PathTreeNode& root, std::string& text) const {
    const PathTreeNode* at = &root;
    while (at->children.size() == 1) {
      text += fmt::format("<div class=\"end\">{}</div>\n", step(*at));
      at = &at->children.front();
    }
    if (at->children.empty()) {
      text += fmt::format("<div class=\"end\">{}</div>\n", step(*at));
      if (!at->stopped.empty())
        text += fmt::format("<div class=\"end dim\">the search ends here: {}</div>\n",
                            markup_text(at->stopped));
      return;
    }
    text += fmt::format("<details open><summary>{}</summary>\n", step(*at));
    for (const PathTreeNode& child : at->children) {
      text += "<div class=\"branch\">\n";
      write_node(child, text);
      text += "</div>\n";
    }
    text += "</details>\n";
  }

  std::string step(const PathTreeNode& at) const {
    const bool names_op = at.step->kind == StepKind::op;
    std::string text = fmt::format("<code{}>{}</code>{}", names_op ? " class=\"op\"" : "",
                                   markup_text(name_of(*at.step)), dim(note_of(at)));
    if (!at.step->location.file.empty())
      text += fmt::format(" <span class=\"place\">{}</span>", place(at.step->location));
    if (at.call_line != 0)
      text += dim(" called at " + line_suffix(at.call_line, at.call_approximate, source_));
    return text;
  }

  const Explanation& it_;
  const ExplanationSource& source_;
  SourceLink link_;
  std::string text_;
};

}  // namespace

std::string to_html(const Explanation& explanation, const ExplanationSource& source) {
  return HtmlWriter(explanation, source).write();
}

}  // namespace optrace
