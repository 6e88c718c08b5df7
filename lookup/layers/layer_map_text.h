#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "lookup/layers/layer_map_layout.h"

namespace optrace {

/// The id of the box for code outside of PyTorch, as in LayerExit::leads_to.
inline constexpr std::string_view kLibraries = "libraries";

/// The text of a box, in one to three columns; places are relative to the box.
struct MapText {
  std::vector<MapLine> lines;
  int height = 0;  ///< Of a box that has space for it.
};

/// Returns a layer's title, purpose, contents, folders (at most `most_folders`) and exits, to fit
/// into a width; only the title if `survey` is null.
MapText text_of(std::string_view id, const LayerSurvey* survey, const IndexedSource& source,
                int width, std::size_t most_folders);

}  // namespace optrace
