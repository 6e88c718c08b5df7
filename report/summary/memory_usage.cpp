#include "report/summary/memory_usage.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::vector<NewTensors> new_results(const Frame& frame) {
  if (!is_op_call(frame)) return {};
  const DispatchDetail& dispatch = *frame.detail->dispatch;
  std::vector<NewTensors> made = dispatch.new_tensors;
  if (made.empty() && dispatch.results) add_new_tensors(*dispatch.results, frame.calls, made);
  return made;
}

struct Node {
  const Frame* frame;
  std::size_t parent;
  bool creates = false;        // Has new results.
  bool creates_below = false;  // A frame below does.
};

// Lists the frames, parents first.
std::vector<Node> nodes_of(const Report& report) {
  std::vector<Node> nodes;
  walk_frames(report.roots, kNowhere, [&](const Frame& frame, std::size_t parent) {
    Node node{.frame = &frame, .parent = parent};
    node.creates = !new_results(frame).empty();
    nodes.push_back(node);
    return nodes.size() - 1;
  });
  return nodes;
}

}  // namespace

std::vector<NewTensors> new_tensors(const Report& report) {
  std::vector<NewTensors> all;
  std::vector<Node> nodes = nodes_of(report);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    if (node.parent != kNowhere && (node.creates || node.creates_below))
      nodes[node.parent].creates_below = true;
    if (!node.creates || node.creates_below) continue;
    add_new_tensors(new_results(*node.frame), all);
  }
  std::ranges::sort(all, {}, &NewTensors::device);
  return all;
}

}  // namespace optrace
