#pragma once

#include <string_view>

namespace optrace {

/// The style sheet of the map of layers, which the build puts into the program.
extern const std::string_view kLayerMapStyle;

}  // namespace optrace
