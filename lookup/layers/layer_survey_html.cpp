#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lookup/layers/layer_survey_output.h"
#include "lookup/layers/layer_wording.h"
#include "present/document_style.h"
#include "present/html_document.h"
#include "present/markup_text.h"

namespace optrace {
namespace {

std::string door_row(const LayerSurvey::Door& door, const LocateSource& source) {
  std::string place;
  if (door.located && !door.located->file.empty())
    place = linked_text(place_text(*door.located, source), door.located->url);
  return fmt::format("<tr><td><code>{}</code></td><td>{}</td><td><code>{}</code></td></tr>\n",
                     markup_text(door.door->name), markup_text(title_of_layer(door.door->leads_to)),
                     place);
}

std::string section(const LayerSurvey& survey, const LocateSource& source) {
  const MappedLayer& layer = *survey.layer;
  std::vector<std::string> folders;
  folders.reserve(layer.folders.size());
  for (const std::string_view folder : layer.folders)
    folders.push_back(fmt::format("<code>{}</code>", markup_text(folder_pattern(folder))));
  const std::vector<std::string> contents = holdings(survey);
  std::string text = fmt::format(
      "<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n<p>{2}</p>\n"
      "<table class=\"facts\"><tbody>\n<tr><th scope=\"row\">folders</th><td>{3}</td></tr>\n"
      "<tr><th scope=\"row\">contains</th><td>{4}</td></tr>\n</tbody></table>\n",
      layer.id, markup_text(layer.title), markup_text(layer.what), fmt::join(folders, ", "),
      contents.empty() ? "nothing in this index" : fmt::format("{}", fmt::join(contents, ", ")));
  text +=
      "<table><thead><tr><th scope=\"col\">exit</th><th scope=\"col\">leads to</th>"
      "<th scope=\"col\">defined at</th></tr></thead><tbody>\n";
  for (const LayerSurvey::Door& door : survey.doors) text += door_row(door, source);
  return text + "</tbody></table>\n</section>\n";
}

}  // namespace

std::string to_html(const std::vector<LayerSurvey>& layers, const LocateSource& source) {
  const std::string title =
      layers.size() == 1
          ? fmt::format("PyTorch {}: {}", source.version, layers.front().layer->title)
          : fmt::format("The layers of PyTorch {}", source.version);
  std::string body = fmt::format("<main>\n<h1>{}</h1>\n", markup_text(title));
  if (source.fit.of_torch && !source.fit.exact)
    body += "<p class=\"dim\">Lines marked ~ are approximate.</p>\n";
  if (!source.fit.of_torch)
    body += fmt::format(
        "<p class=\"warning\">The installed torch is {}: lines are approximate (~).</p>\n",
        source.torch_version.empty() ? "unknown" : markup_text(source.torch_version));
  body += "<nav aria-label=\"Layers\"><ul>\n";
  for (const LayerSurvey& survey : layers)
    body += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", survey.layer->id,
                        markup_text(survey.layer->title));
  body += fmt::format("</ul></nav>\n<div class=\"wide\">\n{}</div>\n", to_svg(layers, source));
  for (const LayerSurvey& survey : layers) body += section(survey, source);
  body += "</main>\n<footer>Made by <code>optrace layers --format html</code>.</footer>\n";
  return html_document(title, body, std::array{kLayerMapStyle});
}

}  // namespace optrace
