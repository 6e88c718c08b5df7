#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lookup/layers/layer_survey.h"
#include "lookup/locate/locate_output.h"

namespace optrace {

// The picture of the layers as boxes and arrows, in pixels. x grows to the right, y downwards.

/// Space around the boxes, and around the text of the heading.
inline constexpr int kMapMargin = 40;

struct MapPoint {
  int x = 0;
  int y = 0;
};

/// A line of text in a box.
struct MapLine {
  MapPoint at;             ///< Start of the baseline; its end if `to_the_left`.
  std::string text;        ///< Not escaped.
  std::string_view style;  ///< Class in lookup/layers/layer_map.css.
  std::string url;         ///< Where it links to; may be empty.
  std::string tip;         ///< Longer text, if `text` is shortened; may be empty.
  bool to_the_left = false;
};

struct MapBox {
  std::string_view id;      ///< Of the layer, or `libraries`.
  std::string_view family;  ///< Class that sets its colours: `python`, `engine`, `kernels`.
  MapPoint corner;          ///< Top left.
  int width = 0;
  int height = 0;
  std::vector<MapLine> lines;
  int row = 0;  ///< Boxes of a row have the same height.

  int right() const { return corner.x + width; }
  int bottom() const { return corner.y + height; }
};

/// Calls from one layer into another.
struct MapArrow {
  std::string_view from;
  std::string_view to;
  std::vector<std::string_view> exits;  ///< Names of the functions that make the calls.
  std::vector<MapPoint> points;         ///< Horizontal and vertical lines, to the head.
};

struct LayerMapLayout {
  int width = 0;
  int height = 0;
  std::vector<MapBox> boxes;
  std::vector<MapArrow> arrows;
};

/// Lays out the map of all layers; if `layers` has only one, this layer between those that call it
/// and those that it calls. `top` is the height of the space for a heading.
LayerMapLayout lay_out(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                       int top);

}  // namespace optrace
