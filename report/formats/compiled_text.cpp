#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/terminal_text.h"
#include "report/compiled/fused_kernels.h"
#include "report/compiled/graph_breaks.h"
#include "report/formats/compiled_output.h"
#include "report/lines/compilation_text.h"
#include "report/lines/report_header.h"
#include "report/lines/text_options.h"

namespace optrace {
namespace {

// Returns the number at the end of a kernel's name, which Inductor counts for each graph.
std::uint64_t number_of(const std::string& name) {
  const std::size_t first_digit = name.find_last_not_of("0123456789") + 1;
  std::uint64_t number = 0;
  std::from_chars(name.data() + first_digit, name.data() + name.size(), number);
  return number;
}

// Returns the kernels graph by graph, in the order in which Inductor defines them.
std::vector<const GeneratedKernel*> in_order(const std::vector<GeneratedKernel>& kernels) {
  std::vector<const GeneratedKernel*> all;
  all.reserve(kernels.size());
  for (const GeneratedKernel& kernel : kernels) all.push_back(&kernel);
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end = std::find_if(
        begin, all.end(), [&](const GeneratedKernel* one) { return one->file != (*begin)->file; });
    std::stable_sort(begin, end, [](const GeneratedKernel* one, const GeneratedKernel* other) {
      return number_of(one->name) < number_of(other->name);
    });
    begin = end;
  }
  return all;
}

class CompiledTextWriter {
 public:
  CompiledTextWriter(const Report& report, const TerminalStyle& style)
      : report_(report), style_(style) {
    for (const Compilation& one : report.compilations) {
      note(one.file);
      if (one.forward.called_from) note(one.forward.called_from->file);
      for (const GraphBreak& broken : one.breaks) note(broken.file);
      for (const CompiledGraph* const graph : graphs_of(one))
        for (const GeneratedKernel& kernel : graph->kernels)
          for (const Origin& origin : kernel.origins) note(origin.file);
    }
  }

  std::string write() {
    ReportTextOptions options;
    options.style = style_;
    text_ = report_header(report_, options);
    if (const std::uint64_t status = report_.recording.exit_status; status != 0)
      line(style_.paint(fmt::format("The program failed with exit status {}. What it would have "
                                    "compiled later is missing.\n",
                                    status),
                        kWarning));
    if (report_.compilations.empty()) line("torch.compile compiled nothing.");
    bool first = true;
    for (const Compilation& one : report_.compilations) {
      if (!std::exchange(first, false)) line("");
      compilation(one);
    }
    return std::move(text_);
  }

 private:
  void note(const std::string& file) {
    if (!file.empty()) places_.push_back({.file = file});
  }

  void line(std::string_view content) {
    text_ += content;
    text_ += '\n';
  }

  void field(std::string_view name, std::string_view content) {
    line("  " + field_line(name, content, style_));
  }

  // Returns "train.py:7", with a link; empty if the file is unknown.
  std::string shown(const CodePlace& place) const {
    if (place.file.empty()) return {};
    return linked(fmt::format("{}:{}", short_file(place.file, places_), place.line), place);
  }

  std::string linked(const std::string& shown, const CodePlace& place) const {
    return style_.link(printable(shown), {.file = place.file, .line = place.line});
  }

  void compilation(const Compilation& one) {
    line(fmt::format("{}  {}{}{}", style_.paint(printable(one.id), kDim),
                     style_.paint(printable(one.function), kBold), one.file.empty() ? "" : "  ",
                     shown({one.file, one.line})));
    if (const std::string from = shown(one.forward.called_from.value_or(CodePlace()));
        !from.empty())
      field("called at", from);
    if (const std::string before = function_before_break(one.function); !before.empty())
      field("continues", fmt::format("{} after a graph break", printable(before)));
    rows("again, as", one.recompile_reasons);
    if (const std::string facts = compilation_facts(one); !facts.empty()) field("graph", facts);
    if (const std::string facts = backward_facts(one); !facts.empty()) field("backward", facts);
    for (const GraphBreak& broken : one.breaks) {
      const std::string at = shown({broken.file, broken.line});
      field("breaks at",
            fmt::format("{}{}{}", at, at.empty() ? "" : ": ", printable(broken.reason)));
    }
    if (!one.failure.empty()) field("failed", style_.paint(printable(one.failure), kWarning));
    if (one.recompile_limit)
      field("limit",
            "reached: PyTorch compiles the function no more, and other inputs run uncompiled");
    kernels("kernel", one.forward);
    if (one.backward) kernels("backward", *one.backward);
    for (const CompiledGraph* const graph : graphs_of(one))
      for (const std::string& pair : pairs_not_fused(*graph)) field("not fused", pair);
  }

  void rows(std::string_view name, const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      field(name, printable(text));
      name = "";
    }
  }

  void kernels(std::string_view name, const CompiledGraph& graph) {
    const bool recorded = std::ranges::any_of(
        graph.kernels, [](const GeneratedKernel& kernel) { return !kernel.origins.empty(); });
    for (const GeneratedKernel* const kernel : in_order(graph.kernels))
      fused(name, *kernel, recorded);
  }

  // Writes a kernel, where it is defined, and a row for each line of the program in it. `recorded`
  // is true if it is known what was fused into kernels of its graph.
  void fused(std::string_view graph, const GeneratedKernel& kernel, bool recorded) {
    const CodePlace source = kernel.source.value_or(CodePlace());
    std::string name = style_.paint(printable(kernel.name), kGreen);
    if (!source.file.empty())
      name += "  " + linked(fmt::format("{}:{}", source.file, source.line), source);
    field(graph, name);
    const std::vector<FusedLine> lines = fused_lines(kernel.origins);
    if (lines.empty())
      row("", recorded ? "none of the graph's ops, as in a copy that changes a layout"
                       : "PyTorch took it from its cache and keeps no record of the ops in it");
    std::vector<std::string> places;
    std::size_t width = 0;
    for (const FusedLine& one : lines) {
      places.push_back(
          one.file.empty() ? "" : fmt::format("{}:{}", short_file(one.file, places_), one.line));
      width = std::max(width, columns(printable(places.back())));
    }
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::string gap(width - columns(printable(places[i])) + (width == 0 ? 0 : 2), ' ');
      row(linked(places[i], {lines[i].file, static_cast<std::uint32_t>(lines[i].line)}) + gap,
          printable(joined(lines[i].ops, ", ")));
    }
  }

  void row(std::string_view place, std::string_view what) {
    std::string content = fmt::format("  {}{}", place, what);
    content.erase(content.find_last_not_of(' ') + 1);
    field("", content);
  }

  const Report& report_;
  const TerminalStyle& style_;
  std::vector<CodePlace> places_;  // All files that the answer names.
  std::string text_;
};

}  // namespace

std::string compiled_text(const Report& report, const TerminalStyle& style) {
  return CompiledTextWriter(report, style).write();
}

}  // namespace optrace
