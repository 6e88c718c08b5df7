#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "platform/text/printable_text.h"
#include "present/terminal_text.h"
#include "report/compiled/fused_kernels.h"
#include "report/compiled/graph_breaks.h"
#include "report/formats/compiled_output.h"
#include "report/lines/compilation_text.h"
#include "report/lines/report_header.h"
#include "report/lines/text_options.h"
#include "report/model/json_fields.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// A place of the program that the answer names.
struct Place {
  std::string file;
  std::uint64_t line = 0;
};

Place place_at(const Json& object) {
  return {text_at(object, "file"), count_at(object, "line")};
}

// Returns the number at the end of a kernel's name, which Inductor counts for each graph.
std::uint64_t number_of(const std::string& name) {
  std::uint64_t number = 0;
  std::from_chars(name.data() + name.find_last_not_of("0123456789") + 1, name.data() + name.size(),
                  number);
  return number;
}

// Returns the kernels graph by graph, in the order in which Inductor defines them.
std::vector<const Json*> in_order(const Json& kernels) {
  std::vector<const Json*> all;
  for (const Json& kernel : kernels) all.push_back(&kernel);
  const auto same_file = [](const Json* one, const Json* other) {
    return text_at(*one, "file") == text_at(*other, "file");
  };
  for (auto begin = all.begin(); begin != all.end();) {
    const auto end =
        std::find_if(begin, all.end(), [&](const Json* one) { return !same_file(one, *begin); });
    std::stable_sort(begin, end, [](const Json* one, const Json* other) {
      return number_of(text_at(*one, "name")) < number_of(text_at(*other, "name"));
    });
    begin = end;
  }
  return all;
}

class CompiledTextWriter {
 public:
  CompiledTextWriter(const Report& report, const TerminalStyle& style)
      : report_(report), style_(style) {
    for (const Json& one : compilations()) {
      note(place_at(one));
      note(place_at(object_at(one, "called_from")));
      for (const Json& broken : list_at(one, "breaks")) note(place_at(broken));
      for (const Json* const graph : {&one, &object_at(one, "backward")})
        for (const Json& kernel : list_at(*graph, "kernels"))
          for (const Json& origin : list_at(kernel, "origins")) note(place_at(origin));
    }
  }

  std::string write() {
    ReportTextOptions options;
    options.style = style_;
    text_ = report_header(report_, options);
    if (const std::uint64_t status = count_at(report_.meta, "exit_status"); status != 0)
      line(style_.paint(fmt::format("The program failed with exit status {}. What it would have "
                                    "compiled later is missing.\n",
                                    status),
                        kWarning));
    if (compilations().empty()) line("torch.compile compiled nothing.");
    bool first = true;
    for (const Json& one : compilations()) {
      if (!std::exchange(first, false)) line("");
      compilation(one);
    }
    return std::move(text_);
  }

 private:
  const Json& compilations() const {
    static const Json kNone = Json::array();
    return report_.compilations.is_array() ? report_.compilations : kNone;
  }

  void note(Place place) {
    if (!place.file.empty()) places_.push_back(std::move(place));
  }

  void line(std::string_view content) {
    text_ += content;
    text_ += '\n';
  }

  void field(std::string_view name, std::string_view content) {
    line("  " + field_line(name, content, style_));
  }

  // Returns "train.py:7", with a link; empty if the file is unknown.
  std::string shown(const Place& place) const {
    if (place.file.empty()) return {};
    return linked(fmt::format("{}:{}", short_file(place.file, places_), place.line), place);
  }

  std::string linked(const std::string& shown, const Place& place) const {
    constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
    const auto line = static_cast<std::uint32_t>(place.line <= kMost ? place.line : 0);
    return style_.link(printable(shown), {.file = place.file, .line = line});
  }

  void compilation(const Json& one) {
    const Place place = place_at(one);
    line(fmt::format("{}  {}{}{}", style_.paint(printable(text_at(one, "id")), kDim),
                     style_.paint(printable(text_at(one, "function")), kBold),
                     place.file.empty() ? "" : "  ", shown(place)));
    if (const Place from = place_at(object_at(one, "called_from")); !from.file.empty())
      field("called at", shown(from));
    if (const std::string before = function_before_break(text_at(one, "function")); !before.empty())
      field("continues", fmt::format("{} after a graph break", printable(before)));
    rows("again, as", list_at(one, "recompile_reasons"));
    if (const std::string facts = compilation_facts(one); !facts.empty()) field("graph", facts);
    if (const std::string facts = compilation_facts(object_at(one, "backward")); !facts.empty())
      field("backward", facts);
    for (const Json& broken : list_at(one, "breaks")) {
      const std::string at = shown(place_at(broken));
      field("breaks at", fmt::format("{}{}{}", at, at.empty() ? "" : ": ",
                                     printable(text_at(broken, "reason"))));
    }
    if (const std::string failure = text_at(one, "failure"); !failure.empty())
      field("failed", style_.paint(printable(failure), kWarning));
    if (one.contains("recompile_limit"))
      field("limit",
            "reached: PyTorch compiles the function no more, and other inputs run uncompiled");
    kernels("kernel", one);
    kernels("backward", object_at(one, "backward"));
    not_fused(one);
    not_fused(object_at(one, "backward"));
  }

  void rows(std::string_view name, const Json& texts) {
    for (const Json& text : texts) {
      if (!text.is_string()) continue;
      field(name, printable(text.get<std::string>()));
      name = "";
    }
  }

  void kernels(std::string_view name, const Json& graph) {
    const Json& all = list_at(graph, "kernels");
    const bool recorded = std::any_of(all.begin(), all.end(), [](const Json& kernel) {
      return !list_at(kernel, "origins").empty();
    });
    for (const Json* const kernel : in_order(all)) fused(name, *kernel, recorded);
  }

  // Writes a kernel, where it is defined, and a row for each line of the program in it. `recorded`
  // is true if it is known what was fused into kernels of its graph.
  void fused(std::string_view graph, const Json& kernel, bool recorded) {
    const Place source = place_at(object_at(kernel, "source"));
    std::string name = style_.paint(printable(text_at(kernel, "name")), kGreen);
    if (!source.file.empty())
      name += "  " + linked(fmt::format("{}:{}", source.file, source.line), source);
    field(graph, name);
    const std::vector<FusedLine> lines = fused_lines(list_at(kernel, "origins"));
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
      row(linked(places[i], {lines[i].file, lines[i].line}) + gap,
          printable(fmt::format("{}", fmt::join(lines[i].ops, ", "))));
    }
  }

  void not_fused(const Json& graph) {
    for (const std::string& pair : pairs_not_fused(graph)) field("not fused", pair);
  }

  void row(std::string_view place, std::string_view what) {
    std::string content = fmt::format("  {}{}", place, what);
    content.erase(content.find_last_not_of(' ') + 1);
    field("", content);
  }

  const Report& report_;
  const TerminalStyle& style_;
  std::vector<Place> places_;  // All files that the answer names.
  std::string text_;
};

}  // namespace

std::string compiled_text(const Report& report, const TerminalStyle& style) {
  return CompiledTextWriter(report, style).write();
}

}  // namespace optrace
