#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lookup/calls/path_tree.h"
#include "lookup/explain/explain_messages.h"
#include "lookup/why_not/why_not_output.h"
#include "platform/text/joined.h"
#include "present/readable_numbers.h"
#include "present/terminal_text.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

constexpr std::size_t kTreeColumns = 66;

class WhyNotTextWriter {
 public:
  WhyNotTextWriter(const WhyNot& it, const ObservedCall* call, const IndexedSource& source,
                   const TerminalStyle& style)
      : it_(it),
        call_(call),
        source_(source),
        style_(style),
        link_(source.git_version, source.version) {}

  std::string write() {
    line(style_.paint(printable(fmt::format("{}, backend {}", it_.op, it_.backend)), kBold));
    field("source", source_sentence(source_));
    if (call_ != nullptr) call();
    for (const BackendRoutes& routes : it_.devices) device(routes);
    return std::move(text_);
  }

 private:
  /// A row of the tree of functions.
  struct Row {
    std::string branch;
    std::string name;
    std::string_view colour;
    std::string note;
    SourceLocation location;
    std::uint32_t call_line = 0;
    std::optional<LineInterval> call_approximate{};
  };

  void line(std::string_view content) {
    text_ += content;
    while (!text_.empty() && text_.back() == ' ') text_.pop_back();
    text_ += '\n';
  }
  void field(std::string_view name, std::string_view content) {
    line(field_line(name, printable(content), style_));
  }

  void call() {
    field("call",
          fmt::format("{}, with {} of the op", call_->input, counted(call_->calls, "call")));
    if (std::ranges::find(it_.devices, call_->device, &BackendRoutes::device) == it_.devices.end())
      field("",
            fmt::format("on {}, where no call path of the op leads to the backend", call_->device));
    std::vector<std::string> results = call_->attention;
    if (results.empty())
      for (const BackendRoutes& routes : it_.devices)
        for (const FunctionOnTheWay& function : routes.functions)
          add_results(function.predicates, function.symbol, false, results);
    bool first = true;
    for (const std::string& result : results)
      field(std::exchange(first, false) ? "in the call" : "", result);
    if (results.empty())
      field("in the call", "the results of the functions about this backend are unknown");
  }

  /// Adds the known results of predicates about the backend, each once, and of checks that one of
  /// them calls through pointers and that failed: it calls the next one only after a success.
  void add_results(const std::vector<Predicate>& predicates, const std::string& caller,
                   bool about_backend, std::vector<std::string>& results) const {
    for (const Predicate& one : predicates) {
      const std::string value = returned(one, caller);
      const bool refuses = about_backend && one.by_reference && value == "→ false";
      if (refuses || (one.is_about && !value.empty())) {
        std::string text = fmt::format("{} ({}) {}", last_part(one.name),
                                       short_place(place_text(one.location, source_)), value);
        if (std::ranges::find(results, text) == results.end()) results.push_back(std::move(text));
      }
      add_results(one.parts, one.symbol, one.is_about, results);
    }
  }

  /// Returns `ConvBackend` for `at::native::ConvBackend`, `use_cudnn` for a qualified function.
  static std::string last_part(const std::string& name) {
    const std::string brief = short_name(name);
    return brief.substr(brief.rfind(':') + 1);
  }

  static std::string short_place(const std::string& place) {
    return place.substr(place.rfind('/') + 1);
  }

  /// Returns `→ false`; empty without a known value.
  std::string returned(const Predicate& one, const std::string& caller) const {
    return call_ == nullptr ? std::string() : call_->returned(one.symbol, caller).text;
  }

  void device(const BackendRoutes& routes) {
    line("");
    line(style_.paint(fmt::format("On {}", printable(routes.device)), kBold));
    for (const FunctionOnTheWay& function : routes.functions) {
      row({.branch = "",
           .name = short_name(function.name),
           .colour = kFunctionColour,
           .note = function.complete ? "" : "calls more functions than the search visits",
           .location = function.location});
      const std::size_t children = function.predicates.size() + function.entries.size();
      std::size_t at = 0;
      for (const Predicate& one : function.predicates)
        predicate(one, function.symbol, "", ++at == children);
      for (const PathStep& one : function.entries) entry(one, ++at == children);
    }
  }

  void predicate(const Predicate& one, const std::string& caller, const std::string& above,
                 bool last) {
    std::string note = last_part(one.type);
    if (!one.values.empty()) note += fmt::format(" ({})", joined(one.values, ", "));
    if (one.by_reference) note += ", by its address";
    if (const std::string value = returned(one, caller); !value.empty())
      note = fmt::format("{}{}{}", value, note.empty() ? "" : "  ", note);
    if (one.listed_before) note += ", see above";
    row({.branch = above + (last ? "└─ " : "├─ "),
         .name = short_name(one.name),
         .colour = kFunctionColour,
         .note = std::move(note),
         .location = one.location,
         .call_line = one.call_line,
         .call_approximate = one.call_approximate});
    const std::string below = above + (last ? "   " : "│  ");
    for (std::size_t i = 0; i < one.parts.size(); ++i)
      predicate(one.parts[i], one.symbol, below, i + 1 == one.parts.size());
  }

  void entry(const PathStep& step, bool last) {
    row({.branch = last ? "└─ " : "├─ ",
         .name = name_of(step),
         .colour = step.kind == StepKind::op ? kOpColour : kLibraryColour,
         .note = step.kind == StepKind::op ? step.note : "",
         .location = step.location,
         .call_line = step.call_line,
         .call_approximate = step.call_approximate});
  }

  void row(const Row& it) {
    const std::string name = printable(it.name);
    const std::string note = printable(it.note);
    std::string text = "  " + style_.paint(it.branch, kDim) + style_.paint(name, it.colour);
    std::size_t width = 2 + columns(it.branch) + columns(name);
    if (!note.empty()) {
      text += "  " + style_.paint(note, kDim);
      width += 2 + columns(note);
    }
    if (width < kTreeColumns) text.append(kTreeColumns - width, ' ');
    if (!it.location.file.empty())
      text += "  " + style_.link(printable(place_text(it.location, source_)),
                                 {.file = std::string(it.location.file),
                                  .line = it.location.line,
                                  .url = link_.of_native(it.location.file, it.location.line)});
    if (it.call_line != 0)
      text += style_.paint("  called at " + line_suffix(it.call_line, it.call_approximate, source_),
                           kDim);
    line(text);
  }

  const WhyNot& it_;
  const ObservedCall* call_;
  const IndexedSource& source_;
  const TerminalStyle& style_;
  SourceLink link_;
  std::string text_;
};

}  // namespace

std::string to_text(const WhyNot& why_not, const ObservedCall* call, const IndexedSource& source,
                    const TerminalStyle& style) {
  return WhyNotTextWriter(why_not, call, source, style).write();
}

}  // namespace optrace
