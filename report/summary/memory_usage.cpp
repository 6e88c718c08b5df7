#include "report/summary/memory_usage.h"

#include <cstddef>
#include <limits>
#include <vector>

#include "pytorch/names/dtypes.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::uint64_t bytes_of(const TensorFacts& tensor) {
  if (!tensor.shape) return 0;
  std::uint64_t bytes = element_bytes(tensor.dtype);
  for (const std::int64_t length : *tensor.shape)
    if (length < 0 || __builtin_mul_overflow(bytes, length, &bytes)) return 0;
  return bytes;
}

// Returns the new tensors among the results of an op's call.
std::vector<const TensorFacts*> new_results(const Frame& frame) {
  std::vector<const TensorFacts*> tensors;
  if (!is_op_call(frame)) return tensors;
  for (const Result* const result : results_of(frame))
    if (const auto* const tensor = std::get_if<TensorFacts>(&result->value);
        tensor != nullptr && result->relation == ResultRelation::fresh)
      tensors.push_back(tensor);
  return tensors;
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

std::map<std::string, NewTensors> new_tensors(const Report& report) {
  std::map<std::string, NewTensors> all;
  std::vector<Node> nodes = nodes_of(report);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    if (node.parent != kNowhere && (node.creates || node.creates_below))
      nodes[node.parent].creates_below = true;
    if (!node.creates || node.creates_below) continue;
    for (const TensorFacts* const tensor : new_results(*node.frame)) {
      NewTensors& usage = all[tensor->device];
      usage.count += node.frame->calls;
      usage.bytes += node.frame->calls * bytes_of(*tensor);
    }
  }
  return all;
}

}  // namespace optrace
