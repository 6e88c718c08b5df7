#include "report/findings/unused_graphs.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "report/compiled/graph_breaks.h"
#include "report/findings/op_tensors.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/shortfalls.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// A frame that may record a graph.
struct RecordingNode {
  static constexpr std::size_t kNoParent = std::numeric_limits<std::size_t>::max();

  const Frame* frame;
  std::size_t parent;  // Index of an earlier node.
  bool in_op = false;
  std::uint64_t recording = 0;  // Calls of ops that record a graph, here and below.
  bool used = false;            // A backward pass runs here or below, or may do so.
};

// Returns true if a node of a C++ function ran of which the op that made it is not known.
bool has_unassigned_nodes(const Report& report) {
  bool found = false;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    const std::optional<NodeDetail>& node = frame.detail->node;
    found = found ||
            (node && node->backward_of.empty() && node->node.find("CppNode") != node->node.npos);
    return 0;
  });
  return found;
}

// Returns true if backward passes may have run that the report does not show.
bool may_lack_a_backward_pass(const Report& report) {
  return report.recording.has_selection ||
         std::ranges::any_of(report.shortfalls, [](const Shortfall& shortfall) {
           const ShortfallEffect effect = kind_of(shortfall).effect;
           return (effect == ShortfallEffect::calls && shortfall.kind != "finalized_later") ||
                  effect == ShortfallEffect::frames;
         });
}

// Lists the frames, parents first, without recursion.
std::vector<RecordingNode> nodes_of(const Report& report) {
  const bool may_be_of_any_library = has_unassigned_nodes(report);
  std::vector<RecordingNode> nodes;
  std::vector<std::pair<const Frame*, std::size_t>> pending;
  pending.reserve(report.roots.size());
  for (const Frame& root : report.roots) pending.emplace_back(&root, RecordingNode::kNoParent);
  while (!pending.empty()) {
    const auto [frame, parent] = pending.back();
    pending.pop_back();
    if (is_setup(*frame)) continue;
    RecordingNode node{.frame = frame, .parent = parent};
    // The node of a compiled function stands below no op; that of a function of C++ for which it is
    // not known belongs to the op of some library.
    node.used = frame->detail->node.has_value() || is_compiled_call(*frame) ||
                (may_be_of_any_library && frame->op && !frame->op->starts_with("aten::"));
    node.in_op = parent != RecordingNode::kNoParent && nodes[parent].in_op;
    if (!node.in_op && is_op_call(*frame)) {
      node.in_op = true;
      node.recording = calls_recording_graph(*frame);
    }
    for (const Frame& child : frame->children) pending.emplace_back(&child, nodes.size());
    nodes.push_back(node);
  }
  return nodes;
}

}  // namespace

UnusedGraphs find_unused_graphs(const Report& report) {
  if (may_lack_a_backward_pass(report)) return {};
  std::vector<RecordingNode> nodes = nodes_of(report);
  UnusedGraphs unused;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const RecordingNode& node = nodes[i];
    if (node.recording != 0 && !node.used) unused.emplace(node.frame, node.recording);
    if (node.parent == RecordingNode::kNoParent) continue;
    nodes[node.parent].recording += node.recording;
    nodes[node.parent].used = nodes[node.parent].used || node.used;
  }
  return unused;
}

}  // namespace optrace
