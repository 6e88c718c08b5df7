#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "platform/printable_text.h"
#include "report/locate/layer_survey_output.h"

namespace optrace {
namespace {

constexpr std::size_t kWidth = 100;  // Used if the output has no width.
constexpr std::string_view kBold = "1";
constexpr std::string_view kDim = "2";

// Breaks `text` into lines of at most `width` columns, at spaces.
std::vector<std::string> wrapped(std::string_view text, std::size_t width) {
  std::vector<std::string> lines(1);
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (!lines.back().empty() && columns(lines.back()) + 1 + columns(word) > width)
      lines.emplace_back();
    if (!lines.back().empty()) lines.back() += ' ';
    lines.back() += word;
  }
  return lines;
}

// Returns `12,345` for 12345.
std::string grouped(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

std::string title_of(std::string_view id) {
  for (const MappedLayer& layer : layer_map())
    if (layer.id == id) return std::string(layer.title);
  return std::string(id);
}

std::string holdings(const LayerSurvey& survey) {
  std::vector<std::string> parts;
  if (survey.python_definitions != 0)
    parts.push_back(grouped(survey.python_definitions) + " definitions in Python");
  if (survey.definitions != 0) parts.push_back(grouped(survey.definitions) + " definitions in C++");
  if (!survey.layer->ops_meant.empty())
    parts.push_back(fmt::format("{} ops {}", grouped(survey.ops), survey.layer->ops_meant));
  return parts.empty() ? "nothing in this index" : fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string to_text(const std::vector<LayerSurvey>& layers, const LocateSource& source,
                    const LocateTextOptions& options) {
  constexpr std::size_t kTitle = 12;
  constexpr std::size_t kLabel = 10;
  const std::size_t width = (options.width == 0 ? kWidth : options.width) - kTitle - kLabel;
  std::size_t names = 0;
  std::size_t targets = 0;
  for (const LayerSurvey& survey : layers) {
    for (const auto& door : survey.doors) {
      names = std::max(names, columns(door.door->name));
      targets = std::max(targets, columns(title_of(door.door->leads_to)));
    }
  }
  std::string text;
  for (const LayerSurvey& survey : layers) {
    if (!text.empty()) text += '\n';
    const MappedLayer& layer = *survey.layer;
    bool first = true;
    for (const std::string& line : wrapped(layer.what, width + kLabel)) {
      const std::string title(first ? layer.title : "");
      text += options.style.paint(title, kBold) + std::string(kTitle - columns(title), ' ');
      text += line + '\n';
      first = false;
    }
    const auto labelled = [&](std::string_view label, const std::string& line) {
      text += std::string(kTitle, ' ') + options.style.paint(label, kDim) +
              std::string(kLabel - label.size(), ' ') + line + '\n';
    };
    std::string_view label = "folders";
    for (const std::string& line :
         wrapped(fmt::format("{}", fmt::join(layer.folders, ", ")), width)) {
      labelled(label, line);
      label = "";
    }
    label = "contains";
    for (const std::string& line : wrapped(holdings(survey), width)) {
      labelled(label, line);
      label = "";
    }
    label = survey.doors.size() == 1 ? "exit" : "exits";
    for (const auto& door : survey.doors) {
      const std::string target = title_of(door.door->leads_to);
      std::string line = fmt::format("{:<{}}  → {:<{}}  ", door.door->name, names, target, targets);
      if (door.located && !door.located->file.empty()) {
        const std::string location = fmt::format("{}{}:{}", source.exact ? "" : "~",
                                                 printable(door.located->file), door.located->line);
        line += options.style.link(
            location,
            {.file = door.located->file, .line = door.located->line, .url = door.located->url});
      }
      line.erase(line.find_last_not_of(' ') + 1);
      labelled(label, line);
      label = "";
    }
  }
  return text;
}

}  // namespace optrace
