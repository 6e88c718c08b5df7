#include "report/summary/memory_usage.h"

#include <cstddef>
#include <limits>
#include <vector>

#include <nlohmann/json.hpp>

#include "pytorch/names/dtypes.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kNowhere = std::numeric_limits<std::size_t>::max();

std::uint64_t bytes_of(const Json& tensor) {
  std::uint64_t bytes = element_bytes(text_at(tensor, "dtype"));
  const auto shape = tensor.find("shape");
  if (shape == tensor.end() || !shape->is_array()) return 0;
  for (const Json& length : *shape) {
    if (!length.is_number_unsigned()) return 0;
    if (__builtin_mul_overflow(bytes, length.get<std::uint64_t>(), &bytes)) return 0;
  }
  return bytes;
}

// Calls visit(tensor) for each new tensor among the results of an op's call.
template <class Visit>
void each_new_tensor(const Frame& frame, const Visit& visit) {
  const Json& detail = frame.detail;
  if (!detail.is_object() || text_at(detail, "step") != "call") return;
  const auto results = detail.find("results");
  if (results == detail.end() || !results->is_array()) return;
  const auto look = [&](const Json& value) {
    const Json& tensor = object_at(value, "tensor");
    if (!tensor.empty() && text_at(value, "relation") == "fresh") visit(tensor);
  };
  for (const Json& result : *results) {
    if (!result.is_array()) {
      look(result);
      continue;
    }
    for (const Json& element : result) look(element);
  }
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
    each_new_tensor(frame, [&](const Json&) { node.creates = true; });
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
    each_new_tensor(*node.frame, [&](const Json& tensor) {
      NewTensors& usage = all[text_at(tensor, "device")];
      usage.count += node.frame->calls;
      usage.bytes += node.frame->calls * bytes_of(tensor);
    });
  }
  return all;
}

}  // namespace optrace
