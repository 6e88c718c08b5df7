#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "lookup/layers/layer_survey_output.h"
#include "platform/text/json_writer.h"
#include "present/json_or_null.h"

namespace optrace {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

std::string to_json(const std::vector<LayerSurvey>& layers, const LocateSource& source) {
  Json object;
  object["schema"] = "optrace.layers/1";
  object["source"] = source_json(source);
  object["layers"] = Json::array();
  for (const LayerSurvey& survey : layers) {
    Json layer;
    layer["id"] = survey.layer->id;
    layer["title"] = survey.layer->title;
    layer["what"] = survey.layer->what;
    layer["folders"] = survey.layer->folders;
    layer["definitions"] = {{"python", survey.python_definitions}, {"cpp", survey.definitions}};
    layer["ops"] = survey.layer->ops_meant.empty() ? Json() : Json(survey.ops);
    layer["doors"] = Json::array();
    for (const auto& door : survey.doors) {
      Json one;
      one["name"] = door.door->name;
      one["leads_to"] = door.door->leads_to;
      one["source"] = Json();
      if (door.located && !door.located->file.empty()) {
        Json place = place_json(*door.located, source);
        place["url"] = text_or_null(door.located->url);
        one["source"] = std::move(place);
      }
      layer["doors"].push_back(std::move(one));
    }
    object["layers"].push_back(std::move(layer));
  }
  return write_json(object, 1) + '\n';
}

}  // namespace optrace
