#include "report/model/frame_time.h"

namespace optrace {

std::uint64_t total_time(const Frame& frame) {
  return frame.time ? frame.time->total : 0;
}

bool is_backward(const Frame& frame) {
  return frame.detail->node && !frame.detail->node->backward_of.empty();
}

std::uint64_t own_time(const Frame& frame) {
  if (frame.layer == Layer::device) return frame.detail->duration.value_or(Duration()).total;
  std::uint64_t inside = 0;
  for (const Frame& child : frame.children)
    if (!is_backward(child)) inside += total_time(child);
  const std::uint64_t total = total_time(frame);
  return total > inside ? total - inside : 0;
}

}  // namespace optrace
