#include "lookup/layers/layer_map_text.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string>
#include <utility>

#include <fmt/core.h>

#include "lookup/layers/layer_messages.h"
#include "platform/text/joined.h"
#include "present/terminal_text.h"
#include "present/wrapped_text.h"

namespace optrace {
namespace {

constexpr int kPadding = 18;
constexpr int kThreeColumns = 1000;  // The least width of a box with three columns of text.
constexpr int kTwoColumns = 600;
constexpr int kTitleHeight = 28;
constexpr int kLineHeight = 18;
constexpr int kSmallLineHeight = 17;
constexpr int kSectionGap = 9;

// A browser chooses the fonts, so widths are estimates: those of the widest fonts that are common.
constexpr double kTextAdvance = 6.9;
constexpr double kMonoAdvance = 6.93;

std::size_t characters(int width, double advance) {
  return static_cast<std::size_t>(std::max(8.0, std::floor(width / advance)));
}

// Returns the end of a name that is too long, behind an ellipsis.
std::string shortened(std::string_view name, std::size_t most) {
  if (columns(name) <= most) return std::string(name);
  std::string_view end = name.substr(name.size() - (most - 1));
  // Starts at a part of the name, if this leaves enough of it.
  const std::size_t part = end.find_first_of(":./");
  if (part < end.size() / 2) end.remove_prefix(end.find_first_not_of(":./", part));
  return "…" + std::string(end);
}

/// A block of lines below each other.
class Section {
 public:
  explicit Section(int width) : width_(width) {}

  void line(std::string text, std::string_view style, int height = kLineHeight) {
    height_ += height;
    MapLine made;
    made.at.y = height_;
    made.text = std::move(text);
    made.style = style;
    lines_.push_back(std::move(made));
  }
  void title(std::string text) {
    line(std::move(text), "title", kTitleHeight);
    height_ += 3;
  }
  void label(std::string text) {
    if (height_ != 0) gap();
    line(std::move(text), "label", kSmallLineHeight);
  }
  void gap() { height_ += kSectionGap; }
  MapLine& last() { return lines_.back(); }
  /// Adds text at the right end of the last line.
  void beside(std::string text, std::string_view style) {
    MapLine made;
    made.at = {width_, height_};
    made.text = std::move(text);
    made.style = style;
    made.to_the_left = true;
    lines_.push_back(std::move(made));
  }
  void append(const Section& below) {
    const int offset = height_ == 0 ? 0 : height_ + kSectionGap;
    for (MapLine line : below.lines_) {
      line.at.y += offset;
      lines_.push_back(std::move(line));
    }
    height_ = offset + below.height_;
  }

  int width() const { return width_; }
  int height() const { return height_; }
  const std::vector<MapLine>& lines() const { return lines_; }

 private:
  int width_;
  int height_ = 0;
  std::vector<MapLine> lines_;
};

Section about(const LayerSurvey& survey, int width) {
  Section section(width);
  section.title(std::string(survey.layer->title));
  for (std::string& line : wrapped(survey.layer->what, characters(width, kTextAdvance)))
    section.line(std::move(line), "text");
  section.gap();
  for (std::string& part : holdings(survey)) section.line(std::move(part), "count");
  return section;
}

Section folders(const LayerSurvey& survey, int width, std::size_t most) {
  Section section(width);
  const auto& all = survey.layer->folders;
  section.label(all.size() == 1 ? "FOLDER" : "FOLDERS");
  // A line that only says `and 1 more` takes the space of that one.
  const std::size_t shown = all.size() <= most ? all.size() : most - 1;
  for (std::size_t i = 0; i < shown; ++i)
    section.line(shortened(folder_pattern(all[i]), characters(width, kMonoAdvance)), "mono",
                 kSmallLineHeight);
  if (shown == all.size()) return section;
  section.line(fmt::format("and {} more", all.size() - shown), "mono dim", kSmallLineHeight);
  section.last().tip =
      joined(std::span(all.begin() + static_cast<std::ptrdiff_t>(shown), all.end()), "\n");
  return section;
}

Section exits(const LayerSurvey& survey, const IndexedSource& source, int width) {
  Section section(width);
  section.label(survey.exits.size() == 1 ? "EXIT" : "EXITS");
  for (const LayerSurvey::Exit& exit : survey.exits) {
    std::string target = "→ " + title_of_layer(exit.function->leads_to);
    const std::size_t space = characters(width, kMonoAdvance) - columns(target) - 2;
    section.line(shortened(exit.function->name, space), "mono", kSmallLineHeight);
    if (exit.located && !exit.located->file.empty()) {
      section.last().url = exit.located->url;
      section.last().tip =
          fmt::format("{}\n{}", exit.function->name, place_text(*exit.located, source));
    }
    section.beside(std::move(target), "mono dim");
  }
  return section;
}

/// Puts sections beside each other.
MapText beside(const std::vector<Section>& sections) {
  MapText text;
  int left = kPadding;
  for (const Section& section : sections) {
    for (MapLine line : section.lines()) {
      line.at.x += left;
      line.at.y += kPadding / 2;
      text.lines.push_back(std::move(line));
    }
    left += section.width() + 2 * kPadding;
    text.height = std::max(text.height, section.height() + 2 * kPadding - kPadding / 3);
  }
  return text;
}

MapText title_only(std::string_view id, int width) {
  Section section(width - 2 * kPadding);
  if (id == kLibraries) {
    section.title("Libraries");
    section.line(
        "cuDNN, cuBLAS, oneDNN, MKL, the CUDA runtime, the C library: code outside of "
        "PyTorch's source",
        "text");
    if (width < kTwoColumns) section.last().text = "outside of PyTorch's source";
  } else {
    section.title(title_of_layer(id));
  }
  return beside({section});
}

}  // namespace

MapText text_of(std::string_view id, const LayerSurvey* survey, const IndexedSource& source,
                int width, std::size_t most_folders) {
  if (survey == nullptr) return title_only(id, width);
  const int count = width >= kThreeColumns ? 3 : width >= kTwoColumns ? 2 : 1;
  const int column = (width - 2 * kPadding * count) / count;
  std::vector<Section> sections;
  sections.push_back(about(*survey, column));
  if (count == 3)
    sections.push_back(folders(*survey, column, most_folders));
  else
    sections.back().append(folders(*survey, column, most_folders));
  if (count == 1)
    sections.back().append(exits(*survey, source, column));
  else
    sections.push_back(exits(*survey, source, column));
  return beside(sections);
}

}  // namespace optrace
