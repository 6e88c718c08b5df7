#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "lookup/layers/layer_messages.h"
#include "lookup/layers/layer_survey_output.h"
#include "platform/text/joined.h"
#include "platform/text/printable_text.h"
#include "present/wrapped_text.h"

namespace optrace {
namespace {

constexpr std::size_t kWidth = 100;  // Used if the output has no width.

std::string contents(const LayerSurvey& survey) {
  const std::vector<std::string> parts = holdings(survey);
  return parts.empty() ? "nothing in this index" : joined(parts, ", ");
}

}  // namespace

std::string to_text(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                    const LocateTextOptions& options) {
  constexpr std::size_t kTitle = 12;
  constexpr std::size_t kLabel = 10;
  const std::size_t width = (options.width == 0 ? kWidth : options.width) - kTitle - kLabel;
  std::size_t names = 0;
  std::size_t targets = 0;
  for (const LayerSurvey& survey : layers) {
    for (const auto& exit : survey.exits) {
      names = std::max(names, columns(exit.function->name));
      targets = std::max(targets, columns(title_of_layer(exit.function->leads_to)));
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
    std::vector<std::string> folders;
    folders.reserve(layer.folders.size());
    for (const std::string_view folder : layer.folders) folders.push_back(folder_pattern(folder));
    for (const std::string& line : wrapped(joined(folders, ", "), width)) {
      labelled(label, line);
      label = "";
    }
    label = "contains";
    for (const std::string& line : wrapped(contents(survey), width)) {
      labelled(label, line);
      label = "";
    }
    label = survey.exits.size() == 1 ? "exit" : "exits";
    for (const auto& exit : survey.exits) {
      const std::string target = title_of_layer(exit.function->leads_to);
      std::string line =
          fmt::format("{:<{}}  → {:<{}}  ", exit.function->name, names, target, targets);
      if (exit.located && !exit.located->file.empty()) {
        line += options.style.link(
            printable(place_text(*exit.located, source)),
            {.file = exit.located->file, .line = exit.located->line, .url = exit.located->url});
      }
      line.erase(line.find_last_not_of(' ') + 1);
      labelled(label, line);
      label = "";
    }
  }
  return text;
}

}  // namespace optrace
