#include "lookup/layers/layer_messages.h"

#include <fmt/core.h>

#include "present/readable_numbers.h"

namespace optrace {

std::string title_of_layer(std::string_view id) {
  for (const MappedLayer& layer : layer_map())
    if (layer.id == id) return std::string(layer.title);
  return std::string(id);
}

std::vector<std::string> holdings(const LayerSurvey& survey) {
  std::vector<std::string> parts;
  const std::string python = readable_count(survey.python_definitions) + " definitions in Python";
  const std::string native = readable_count(survey.definitions);
  if (survey.python_definitions == 0 && survey.definitions != 0)
    parts.push_back(native + " definitions in C++");
  else if (survey.python_definitions != 0)
    parts.push_back(survey.definitions == 0 ? python
                                            : fmt::format("{}, {} in C++", python, native));
  if (!survey.layer->ops_meant.empty())
    parts.push_back(fmt::format("{} ops {}", readable_count(survey.ops), survey.layer->ops_meant));
  return parts;
}

std::string folder_pattern(std::string_view folder) {
  const bool complete = folder.ends_with('/') ||
                        folder.substr(folder.rfind('/') + 1).find('.') != std::string_view::npos;
  return std::string(folder) + (complete ? "" : "*");
}

}  // namespace optrace
