#include "report/output/report_html.h"

#include <cstdint>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "report/model/frame_name.h"
#include "report/model/json_fields.h"
#include "report/model/layers.h"
#include "report/model/shortfalls.h"
#include "report/output/markup_text.h"

namespace optrace {
namespace {

// Deeper nesting could exceed a browser's own recursion limit; frames below are not nested.
constexpr std::size_t kMaxDepth = 200;
// Frames above this depth are expanded.
constexpr std::size_t kOpenDepth = 12;

constexpr std::string_view kStyle =
    "<style>"
    ".optrace{font:13px/1.5 ui-monospace,monospace;overflow-x:auto}"
    ".optrace details{margin-left:1.2em}"
    ".optrace>details{margin-left:0}"
    ".optrace .leaf{margin-left:2.2em}"
    ".optrace summary,.optrace .leaf{white-space:nowrap}"
    ".optrace .l{opacity:.65;display:inline-block;min-width:6.5em}"
    ".optrace .s,.optrace .n{opacity:.75;margin-left:1em}"
    ".optrace .w{color:#b35900}"
    "</style>";

std::string linked(const std::string& text, std::string_view url) {
  if (!url.starts_with("https://github.com/")) return markup_text(text);
  return fmt::format(R"(<a href="{}" target="_blank" rel="noopener noreferrer">{}</a>)",
                     markup_text(url), markup_text(text));
}

class HtmlWriter {
 public:
  HtmlWriter(const Report& report, const HtmlOptions& options)
      : report_(report), options_(options) {}

  std::string write() {
    text_ = "<div class=\"optrace\">";
    text_ += kStyle;
    header();
    frames();
    text_ += "</div>\n";
    return std::move(text_);
  }

 private:
  void header() {
    text_ +=
        fmt::format("<div><b>{}</b><span class=\"n\">torch {} on {}</span></div>",
                    markup_text(text_at(report_.meta, "call")),
                    markup_text(text_at(report_.torch, "version")), markup_text(report_.device));
    const auto warn = [this](const std::string& warning) {
      text_ += fmt::format("<div class=\"w\">{}</div>", markup_text(warning));
    };
    if (report_.meta.is_object() && report_.meta.contains("warnings")) {
      for (const nlohmann::json& warning : report_.meta["warnings"]) {
        if (warning.is_string()) warn(warning.get<std::string>());
      }
    }
    for (const std::string& warning : shortfall_warnings(report_.shortfalls)) warn(warning);
  }

  // Without recursion: a tree may be as deep as the traced program's recursion.
  void frames() {
    struct Pending {
      const Frame* frame;  // Null: end of an element.
      const Frame* parent;
      std::size_t depth;
    };
    std::vector<Pending> pending;
    for (auto root = report_.roots.rbegin(); root != report_.roots.rend(); ++root) {
      pending.push_back({&*root, nullptr, 0});
    }
    std::size_t shown = 0, left_out = 0;
    while (!pending.empty()) {
      const Pending at = pending.back();
      pending.pop_back();
      if (at.frame == nullptr) {
        text_ += "</details>";
        continue;
      }
      const Frame& frame = *at.frame;
      const bool visible = shown < options_.most_frames;
      ++(visible ? shown : left_out);
      const bool nests = visible && !frame.children.empty() && at.depth < kMaxDepth;
      if (nests) {
        text_ += fmt::format("<details{}><summary>{}</summary>",
                             at.depth < kOpenDepth ? " open" : "", line(frame, at.parent));
        pending.push_back({nullptr, nullptr, 0});
      } else if (visible) {
        text_ += fmt::format("<div class=\"leaf\">{}</div>", line(frame, at.parent));
      }
      for (std::size_t i = frame.children.size(); i-- > 0;) {
        pending.push_back({&frame.children[i], &frame, at.depth + 1});
      }
    }
    if (left_out != 0) {
      text_ += fmt::format(
          "<div class=\"w\">{} more frames are not shown here; report() shows them.</div>",
          left_out);
    }
  }

  std::string line(const Frame& frame, const Frame* parent) const {
    const std::string step = text_at(frame.detail, "step");
    std::string made = fmt::format("<span class=\"l\">{}</span>{}", name_of(frame.layer),
                                   markup_text(frame_name(frame)));
    const auto note = [&made](const std::string& said) {
      if (!said.empty()) made += fmt::format("<span class=\"n\">{}</span>", markup_text(said));
    };
    note(step);
    note(text_at(frame.detail, "cpu_capability"));
    if (frame.source && !frame.source->file.empty()) {
      const bool exact = report_.source_exact || frame.layer == Layer::python;
      made += fmt::format(
          "<span class=\"s\">{}</span>",
          linked(fmt::format("{}:{}{}", frame.source->file, exact ? "" : "~", frame.source->line),
                 frame.source->url));
    }
    if (frame.calls != (parent == nullptr ? 1 : parent->calls)) {
      note(fmt::format("×{}", frame.calls));
    }
    return made;
  }

  const Report& report_;
  const HtmlOptions& options_;
  std::string text_;
};

}  // namespace

std::string to_html(const Report& report, const HtmlOptions& options) {
  return HtmlWriter(report, options).write();
}

}  // namespace optrace
