#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "present/line_text.h"
#include "report/formats/writers.h"
#include "report/model/frame_name.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

struct GraphNode {
  Layer layer = Layer::runtime;
  std::string name;
  std::string place;  // `file:line`; empty if unknown.
};

struct PathGraph {
  std::vector<GraphNode> nodes;
  // Number of calls by caller and callee, in the order of first calls.
  std::vector<std::pair<std::pair<std::size_t, std::size_t>, std::uint64_t>> edges;
};

// Light enough for black text on them.
constexpr std::array<std::string_view, kLayers> kColours = {"#cfe2f3", "#d9ead3", "#fff2cc",
                                                            "#f4cccc", "#fce5cd", "#d9d2e9",
                                                            "#d0e0e3", "#eeeeee", "#ead1dc"};

// Escapes `text` for a string of DOT in double quotes, in which `\` begins an escape.
std::string dot_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable(text)) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

GraphNode node_of(const Frame& frame) {
  GraphNode node{frame.layer, frame_label(frame), {}};
  if (frame.source) node.place = place_text(*frame.source);
  return node;
}

PathGraph graph_of(const Report& report) {
  PathGraph graph;
  std::map<std::tuple<Layer, std::string, std::string>, std::size_t> nodes;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> edges;
  constexpr auto kNoCaller = static_cast<std::size_t>(-1);
  walk_frames(report.roots, kNoCaller, [&](const Frame& frame, std::size_t caller) {
    GraphNode described = node_of(frame);
    const auto [node, is_new] =
        nodes.try_emplace({described.layer, described.name, described.place}, graph.nodes.size());
    if (is_new) graph.nodes.push_back(std::move(described));
    if (caller != kNoCaller) {
      const std::pair ends(caller, node->second);
      const auto [edge, is_first] = edges.try_emplace(ends, graph.edges.size());
      if (is_first) graph.edges.emplace_back(ends, 0);
      graph.edges[edge->second].second += frame.calls;
    }
    return node->second;
  });
  return graph;
}

}  // namespace

void to_dot(const Report& report, const FormatOptions&, OutputSink& sink) {
  const PathGraph graph = graph_of(report);
  sink.write(
      "digraph calls {\n"
      "  node [shape=box, style=filled, fontname=\"monospace\"];\n");
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const GraphNode& node = graph.nodes[i];
    sink.print("  n{} [label=\"{}{}{}\", fillcolor=\"{}\", tooltip=\"{}\"];\n", i,
               dot_text(node.name), node.place.empty() ? "" : "\\n", dot_text(node.place),
               kColours[static_cast<std::size_t>(node.layer)], name_of(node.layer));
  }
  for (const auto& [ends, calls] : graph.edges) {
    sink.print("  n{} -> n{}", ends.first, ends.second);
    sink.write(calls == 1 ? ";\n" : fmt::format(" [label=\"×{}\"];\n", calls));
  }
  sink.write("}\n");
}

}  // namespace optrace
