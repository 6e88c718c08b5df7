#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "lookup/layers/layer_map_layout.h"
#include "lookup/layers/layer_map_style.h"
#include "lookup/layers/layer_messages.h"
#include "lookup/layers/layer_survey_output.h"
#include "platform/text/joined.h"
#include "present/markup_text.h"

namespace optrace {
namespace {

constexpr int kTop = 112;    // Height of the heading.
constexpr int kCorner = 10;  // Radius of the corners of arrows.
constexpr int kBand = 6;     // Width of the coloured band of a box.
constexpr int kHead = 8;     // Length of an arrow's head in front of its line.

struct Family {
  std::string_view style;
  std::string_view name;
};
constexpr auto kFamilies = std::to_array<Family>({{"python", "front ends"},
                                                  {"engine", "calls and gradients"},
                                                  {"kernels", "kernels and memory"},
                                                  {"outside", "outside of PyTorch"}});

int sign(int value) {
  return value < 0 ? -1 : value > 0 ? 1 : 0;
}

/// Returns the point `distance` before `to`, on the horizontal or vertical line from `from`.
MapPoint before(MapPoint to, MapPoint from, int distance) {
  return {to.x + sign(from.x - to.x) * distance, to.y + sign(from.y - to.y) * distance};
}

/// Returns the data of an SVG path with rounded corners.
std::string path_data(const std::vector<MapPoint>& points) {
  std::string data = fmt::format("M{} {}", points.front().x, points.front().y);
  for (std::size_t i = 1; i + 1 < points.size(); ++i) {
    const MapPoint start = before(points[i], points[i - 1], kCorner);
    const MapPoint end = before(points[i], points[i + 1], kCorner);
    data += fmt::format(" L{} {} Q{} {} {} {}", start.x, start.y, points[i].x, points[i].y, end.x,
                        end.y);
  }
  const MapPoint end = before(points.back(), points[points.size() - 2], kHead + 2);
  return data + fmt::format(" L{} {}", end.x, end.y);
}

class SvgWriter {
 public:
  SvgWriter(const std::vector<LayerSurvey>& layers, const IndexedSource& source)
      : map_(lay_out(layers, source, kTop)), source_(source), one_(layers.size() == 1) {}

  std::string write() {
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"map\" viewBox=\"0 0 {0} {1}\" "
        "width=\"{0}\" height=\"{1}\" role=\"graphics-document\" "
        "aria-labelledby=\"map-title\" aria-describedby=\"map-description\">\n"
        "<title id=\"map-title\">{2}</title>\n<desc id=\"map-description\">{3}</desc>\n"
        "<style>{4}</style>\n",
        map_.width, map_.height, markup_text(heading()), markup_text(description()),
        kLayerMapStyle);
    text_ +=
        "<defs><marker id=\"map-arrowhead\" viewBox=\"0 0 10 10\" refX=\"1\" refY=\"5\" "
        "markerWidth=\"11\" markerHeight=\"11\" markerUnits=\"userSpaceOnUse\" orient=\"auto\">"
        "<path class=\"head\" d=\"M0 0 L10 5 L0 10 z\"/></marker></defs>\n";
    text_ +=
        fmt::format("<rect class=\"page\" width=\"{}\" height=\"{}\"/>\n", map_.width, map_.height);
    write_heading();
    for (const MapArrow& arrow : map_.arrows) write_arrow(arrow);
    for (const MapBox& box : map_.boxes) write_box(box);
    return std::move(text_) + "</svg>\n";
  }

 private:
  std::string heading() const {
    return one_ ? fmt::format("The layer {} of PyTorch {}", title_of_layer(chosen()),
                              source_.version)
                : fmt::format("The layers of PyTorch {}", source_.version);
  }
  std::string_view chosen() const {
    for (const MapBox& box : map_.boxes)
      if (box.lines.size() > 2) return box.id;
    return {};
  }

  std::string description() const {
    std::vector<std::string> calls;
    calls.reserve(map_.arrows.size());
    for (const MapArrow& arrow : map_.arrows)
      calls.push_back(
          fmt::format("{} calls {}", title_of_layer(arrow.from), title_of_layer(arrow.to)));
    return fmt::format("Boxes are layers. Arrows lead from a layer to one that it calls: {}.",
                       joined(calls, "; "));
  }

  void write_text(MapPoint at, std::string_view style, std::string_view text,
                  bool to_the_left = false) {
    text_ += fmt::format("<text x=\"{}\" y=\"{}\" class=\"{}\"{}>{}</text>", at.x, at.y, style,
                         to_the_left ? " text-anchor=\"end\"" : "", markup_text(text));
  }

  void write_heading() {
    write_text({kMapMargin, 52}, "heading", heading());
    std::string note =
        "An arrow leads from a layer to one that it calls. Exits are functions that make such "
        "calls.";
    if (!source_.match.of_torch) note += " The installed torch is of another version.";
    write_text({kMapMargin, 78}, "dim", note);
    text_ += '\n';
    if (!one_) write_legend();
  }

  void write_legend() {
    int x = map_.width - kMapMargin;
    for (auto family = kFamilies.rbegin(); family != kFamilies.rend(); ++family) {
      x -= 22 + static_cast<int>(family->name.size()) * 7;
      text_ += fmt::format(
          "\n<g class=\"{}\"><rect class=\"box\" x=\"{}\" y=\"36\" width=\"16\" height=\"16\" "
          "rx=\"3\"/><rect class=\"band\" x=\"{}\" y=\"36\" width=\"{}\" height=\"16\"/>",
          family->style, x, x, family->style == "outside" ? 0 : 4);
      write_text({x + 24, 49}, "dim", family->name);
      text_ += "</g>";
      x -= 22;
    }
    text_ += '\n';
  }

  void write_arrow(const MapArrow& arrow) {
    text_ += fmt::format(
        "<g class=\"call\"><title>{}</title><path class=\"arrow\" d=\"{}\" "
        "marker-end=\"url(#map-arrowhead)\"/></g>\n",
        markup_text(fmt::format("{} → {}: {}", title_of_layer(arrow.from), title_of_layer(arrow.to),
                                joined(arrow.exits, ", "))),
        path_data(arrow.points));
  }

  void write_box(const MapBox& box) {
    text_ += fmt::format(
        "<g class=\"{}\" id=\"layer-{}\" role=\"group\" aria-label=\"{}\">"
        "<rect class=\"box\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" rx=\"8\"/>",
        box.family, box.id, markup_text(title_of_layer(box.id)), box.corner.x, box.corner.y,
        box.width, box.height);
    if (box.family != "outside")
      text_ += fmt::format(
          "<path class=\"band\" d=\"M{0} {1} v{2} a8 8 0 0 1 -{3} -7 v-{4} a8 8 0 0 1 {3} -7 z\"/>",
          box.corner.x + kBand, box.corner.y, box.height, kBand, box.height - 14);
    text_ += '\n';
    for (const MapLine& line : box.lines) write_line(line);
    text_ += "</g>\n";
  }

  void write_line(const MapLine& line) {
    const bool is_link = line.url.starts_with("https://github.com/");
    if (is_link)
      text_ += fmt::format("<a href=\"{}\">", markup_text(line.url));
    else if (!line.tip.empty())
      text_ += "<g>";
    if (!line.tip.empty()) text_ += fmt::format("<title>{}</title>", tip(line.tip));
    write_text(line.at, line.style, line.text, line.to_the_left);
    if (is_link)
      text_ += "</a>";
    else if (!line.tip.empty())
      text_ += "</g>";
    text_ += '\n';
  }

  // Returns several lines as markup.
  static std::string tip(std::string_view text) {
    std::string result;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      if (!result.empty()) result += '\n';
      result += markup_text(line);
      text.remove_prefix(std::min(text.size(), line.size() + 1));
    }
    return result;
  }

  LayerMapLayout map_;
  const IndexedSource& source_;
  bool one_;
  std::string text_;
};

}  // namespace

std::string to_svg(const std::vector<LayerSurvey>& layers, const IndexedSource& source) {
  return SvgWriter(layers, source).write();
}

}  // namespace optrace
