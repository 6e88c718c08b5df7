#pragma once

#include <string>
#include <vector>

#include "lookup/layers/layer_survey.h"
#include "lookup/locate/locate_output.h"

namespace optrace {

/// Returns the map of the layers for people.
std::string to_text(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                    const LocateTextOptions& options);

/// Returns the map as optrace.layers/1 (layers.schema.json), indented, with a newline at the end.
std::string to_json(const std::vector<LayerSurvey>& layers, const IndexedSource& source);

/// Returns a picture of the map as an SVG file.
std::string to_svg(const std::vector<LayerSurvey>& layers, const IndexedSource& source);

}  // namespace optrace
