#include "report/findings/unused_graphs.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "report/compiled/graph_breaks.h"
#include "report/findings/op_tensors.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"

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

// Lists the frames, parents first, without recursion.
std::vector<RecordingNode> nodes_of(const Report& report) {
  std::vector<RecordingNode> nodes;
  std::vector<std::pair<const Frame*, std::size_t>> pending;
  pending.reserve(report.roots.size());
  for (const Frame& root : report.roots) pending.emplace_back(&root, RecordingNode::kNoParent);
  while (!pending.empty()) {
    const auto [frame, parent] = pending.back();
    pending.pop_back();
    if (is_setup(*frame)) continue;
    RecordingNode node{.frame = frame, .parent = parent};
    // The node of a compiled function stands below no op.
    node.used = is_backward(*frame) || is_compiled_call(*frame);
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
