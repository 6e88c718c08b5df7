#include <optional>
#include <string>
#include <vector>

#include "lookup/layers/layer_survey_output.h"
#include "lookup/locate/locate_json.h"

namespace optrace {
namespace {

void write_exit(JsonStream& json, const LayerSurvey::Exit& exit, const IndexedSource& source) {
  json.field("name", exit.function->name);
  json.field("leads_to", exit.function->leads_to);
  json.key("source");
  if (!exit.located || exit.located->file.empty()) {
    json.null();
    return;
  }
  json.object([&] {
    add_place(json, *exit.located, source);
    json.text_or_null("url", exit.located->url);
  });
}

void write_layer(JsonStream& json, const LayerSurvey& survey, const IndexedSource& source) {
  json.field("id", survey.layer->id);
  json.field("title", survey.layer->title);
  json.field("what", survey.layer->what);
  json.field("folders", survey.layer->folders);
  json.key("definitions").object([&] {
    json.field("python", survey.python_definitions);
    json.field("cpp", survey.definitions);
  });
  json.field("ops", survey.layer->ops_meant.empty() ? std::nullopt : std::optional(survey.ops));
  json.key("doors").objects(survey.exits,
                            [&](const LayerSurvey::Exit& exit) { write_exit(json, exit, source); });
}

}  // namespace

std::string to_json(const std::vector<LayerSurvey>& layers, const IndexedSource& source) {
  JsonStream json(1);
  json.object([&] {
    json.field("schema", "optrace.layers/1");
    add_source(json, source);
    json.key("layers").objects(
        layers, [&](const LayerSurvey& survey) { write_layer(json, survey, source); });
  });
  return json.text() + '\n';
}

}  // namespace optrace
