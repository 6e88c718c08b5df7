#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lookup/layers/layer_survey.h"

namespace optrace {

/// Returns the title of a layer, and the id itself for `libraries`.
std::string title_of_layer(std::string_view id);

/// Returns what an index has of a layer: `1,200 definitions in Python, 300 in C++`,
/// `300 ops with a derivative`. Empty if it has nothing.
std::vector<std::string> holdings(const LayerSurvey& survey);

/// Returns a folder or file of a layer; a prefix of file names ends with `*`.
std::string folder_pattern(std::string_view folder);

}  // namespace optrace
