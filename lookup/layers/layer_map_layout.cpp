#include "lookup/layers/layer_map_layout.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

#include "lookup/layers/layer_map_text.h"

namespace optrace {
namespace {

constexpr int kColumnGap = 60;
constexpr int kRowGap = 54;
constexpr int kColumnWidth = 400;
constexpr int kColumns = 4;
constexpr int kOneLayerWidth = 1100;
constexpr int kParallel = 40;   // Distance between arrows in opposite directions.
constexpr int kShoulder = 60;   // Distance of an arrow with bends from the end of its box's side.
constexpr int kLeastPort = 40;  // Boxes that overlap by less are not above each other.

/// The place of a layer in the grid of the whole map.
struct GridPlace {
  std::string_view id;
  std::string_view family;
  int column;
  int columns;
  int row;
};

// Layers that call each other are neighbours, so that no arrow crosses another or a box.
constexpr auto kGrid = std::to_array<GridPlace>({
    {"optim", "python", 0, 1, 0},
    {"python", "python", 1, 1, 0},
    {"functional", "python", 2, 1, 0},
    {"nn", "python", 3, 1, 0},
    {"compiler", "python", 0, 1, 1},
    {"autograd", "engine", 1, 1, 1},
    {"bindings", "engine", 2, 1, 1},
    {"jit", "python", 3, 1, 1},
    {"dispatcher", "engine", 0, 4, 2},
    {"aten", "kernels", 0, 2, 3},
    {"cuda", "kernels", 2, 1, 3},
    {"c10", "kernels", 3, 1, 3},
    {kLibraries, "outside", 0, 4, 4},
});

std::string_view family_of(std::string_view id) {
  const auto* const place =
      std::ranges::find_if(kGrid, [&](const auto& one) { return one.id == id; });
  return place == kGrid.end() ? "" : place->family;
}

const LayerSurvey* survey_of(const std::vector<LayerSurvey>& layers, std::string_view id) {
  const auto found =
      std::ranges::find_if(layers, [&](const LayerSurvey& one) { return one.layer->id == id; });
  return found == layers.end() ? nullptr : &*found;
}

// ---- boxes ----

/// A box with its text, whose place is relative to the box until `settle` moves it.
void fill(MapBox& box, const std::vector<LayerSurvey>& layers, const IndexedSource& source,
          std::size_t most_folders) {
  MapText text = text_of(box.id, survey_of(layers, box.id), source, box.width, most_folders);
  box.height = text.height;
  box.lines = std::move(text.lines);
}

/// Sets the vertical place of the boxes: each row is as high as its highest box.
void settle(LayerMapLayout& map, int top) {
  int rows = 0;
  for (const MapBox& box : map.boxes) rows = std::max(rows, box.row + 1);
  std::vector<int> heights(static_cast<std::size_t>(rows), 0);
  const auto height = [&](int row) -> int& { return heights[static_cast<std::size_t>(row)]; };
  for (const MapBox& box : map.boxes) height(box.row) = std::max(height(box.row), box.height);
  std::vector<int> starts = {top};
  for (const int one : heights) starts.push_back(starts.back() + one + kRowGap);
  for (MapBox& box : map.boxes) {
    box.corner.y = starts[static_cast<std::size_t>(box.row)];
    box.height = height(box.row);
    for (MapLine& line : box.lines) {
      line.at.x += box.corner.x;
      line.at.y += box.corner.y;
    }
    map.height = std::max(map.height, box.bottom() + kMapMargin);
  }
}

std::vector<MapBox> grid_boxes(const std::vector<LayerSurvey>& layers,
                               const IndexedSource& source) {
  std::vector<MapBox> boxes;
  for (const GridPlace& place : kGrid) {
    MapBox box;
    box.id = place.id;
    box.family = place.family;
    box.corner.x = kMapMargin + place.column * (kColumnWidth + kColumnGap);
    box.width = place.columns * (kColumnWidth + kColumnGap) - kColumnGap;
    box.row = place.row;
    constexpr std::size_t kFewFolders = 3;
    constexpr std::size_t kManyFolders = 12;
    fill(box, layers, source, place.columns > 1 ? kManyFolders : kFewFolders);
    boxes.push_back(std::move(box));
  }
  return boxes;
}

/// Adds boxes of equal width, next to each other.
void add_row(LayerMapLayout& map, const std::vector<std::string_view>& ids, int row) {
  if (ids.empty()) return;
  const int count = static_cast<int>(ids.size());
  const int width = (kOneLayerWidth - 2 * kMapMargin + kColumnGap / 2) / count - kColumnGap / 2;
  for (int i = 0; i < count; ++i) {
    MapBox box;
    box.id = ids[static_cast<std::size_t>(i)];
    box.family = family_of(box.id);
    box.corner.x = kMapMargin + i * (width + kColumnGap / 2);
    box.width = width;
    box.row = row;
    fill(box, {}, {}, 0);
    map.boxes.push_back(std::move(box));
  }
}

// ---- arrows ----

using Pairs = std::vector<std::pair<std::string_view, std::string_view>>;

/// Returns the calls between layers, without those inside of a layer.
std::vector<MapArrow> calls_between_layers() {
  std::vector<MapArrow> arrows;
  for (const MappedLayer& layer : layer_map()) {
    for (const LayerExit& exit : layer.exits) {
      if (exit.leads_to == layer.id) continue;
      const auto found = std::ranges::find_if(arrows, [&](const MapArrow& arrow) {
        return arrow.from == layer.id && arrow.to == exit.leads_to;
      });
      if (found != arrows.end()) {
        found->exits.push_back(exit.name);
        continue;
      }
      MapArrow arrow;
      arrow.from = layer.id;
      arrow.to = exit.leads_to;
      arrow.exits = {exit.name};
      arrows.push_back(std::move(arrow));
    }
  }
  return arrows;
}

/// The part of a line that two boxes have in common; empty if it is too short for an arrow.
std::optional<int> middle(int from, int to, int other_from, int other_to) {
  const int start = std::max(from, other_from);
  const int end = std::min(to, other_to);
  return end - start < kLeastPort ? std::nullopt : std::optional((start + end) / 2);
}

/// Returns the way of an arrow between two boxes. `shift` separates it from the one back.
std::vector<MapPoint> route(const MapBox& from, const MapBox& to, int shift) {
  const bool down = to.row > from.row;
  const bool up = to.row < from.row;
  const bool right = to.corner.x >= from.right();
  if (down || up) {
    const int start = down ? from.bottom() : from.corner.y;
    const int end = down ? to.corner.y : to.bottom();
    if (const auto x = middle(from.corner.x, from.right(), to.corner.x, to.right()))
      return {{*x + shift, start}, {*x + shift, end}};
    const int x = right ? from.right() - kShoulder : from.corner.x + kShoulder;
    const int target = right ? to.corner.x + kShoulder : to.right() - kShoulder;
    const int lane = (start + end) / 2;
    return {{x, start}, {x, lane}, {target, lane}, {target, end}};
  }
  const int start = right ? from.right() : from.corner.x;
  const int end = right ? to.corner.x : to.right();
  const auto y = middle(from.corner.y, from.bottom(), to.corner.y, to.bottom());
  if (y && std::abs(end - start) <= kColumnGap) return {{start, *y + shift}, {end, *y + shift}};
  const int x = right ? from.right() - kShoulder : from.corner.x + kShoulder;
  const int target = right ? to.corner.x + kShoulder : to.right() - kShoulder;
  const int lane = std::min(from.corner.y, to.corner.y) - kRowGap / 2;
  return {{x, from.corner.y}, {x, lane}, {target, lane}, {target, to.corner.y}};
}

void connect(LayerMapLayout& map) {
  std::map<std::string_view, const MapBox*> boxes;
  for (const MapBox& box : map.boxes) boxes.emplace(box.id, &box);
  map.arrows = calls_between_layers();
  const auto goes_back = [&](const MapArrow& arrow) {
    return std::ranges::any_of(map.arrows, [&](const MapArrow& other) {
      return other.from == arrow.to && other.to == arrow.from;
    });
  };
  for (MapArrow& arrow : map.arrows) {
    const int shift = goes_back(arrow) ? (arrow.from < arrow.to ? -kParallel : kParallel) / 2 : 0;
    arrow.points = route(*boxes.at(arrow.from), *boxes.at(arrow.to), shift);
  }
}

LayerMapLayout whole_map(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                         int top) {
  LayerMapLayout map;
  map.width = 2 * kMapMargin + kColumns * (kColumnWidth + kColumnGap) - kColumnGap;
  map.boxes = grid_boxes(layers, source);
  settle(map, top);
  connect(map);
  return map;
}

LayerMapLayout map_of_one(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                          int top) {
  const std::string_view id = layers.front().layer->id;
  LayerMapLayout map;
  map.width = kOneLayerWidth;
  std::vector<std::string_view> callers;
  std::vector<std::string_view> callees;
  for (MapArrow& arrow : calls_between_layers()) {
    if (arrow.to == id) callers.push_back(arrow.from);
    if (arrow.from == id) callees.push_back(arrow.to);
    if (arrow.to == id || arrow.from == id) map.arrows.push_back(std::move(arrow));
  }
  add_row(map, callers, 0);
  MapBox box;
  box.id = id;
  box.family = family_of(id);
  box.corner.x = kMapMargin;
  box.width = kOneLayerWidth - 2 * kMapMargin;
  box.row = callers.empty() ? 0 : 1;
  constexpr std::size_t kAllFolders = 100;
  fill(box, layers, source, kAllFolders);
  map.boxes.push_back(std::move(box));
  const std::size_t self = map.boxes.size() - 1;
  add_row(map, callees, map.boxes[self].row + 1);
  settle(map, top);
  const auto neighbour = [&](std::string_view other, std::size_t first, std::size_t end) {
    while (first < end && map.boxes[first].id != other) ++first;
    return first;
  };
  for (MapArrow& arrow : map.arrows) {
    const bool in = arrow.to == id;
    const MapBox& other = map.boxes[in ? neighbour(arrow.from, 0, self)
                                       : neighbour(arrow.to, self + 1, map.boxes.size())];
    arrow.points = in ? route(other, map.boxes[self], 0) : route(map.boxes[self], other, 0);
  }
  return map;
}

}  // namespace

LayerMapLayout lay_out(const std::vector<LayerSurvey>& layers, const IndexedSource& source,
                       int top) {
  return layers.size() == 1 ? map_of_one(layers, source, top) : whole_map(layers, source, top);
}

}  // namespace optrace
