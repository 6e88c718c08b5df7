#include "report/model/frame_time.h"

#include "report/model/json_fields.h"

namespace optrace {

std::uint64_t total_time(const Frame& frame) {
  return frame.time ? frame.time->total : 0;
}

nlohmann::json time_json(const FrameTime& time) {
  if (!time.range) return {{"total", time.total}};
  return {
      {"total", time.total}, {"shortest", time.range->shortest}, {"longest", time.range->longest}};
}

nlohmann::json detail_with_time(const Frame& frame) {
  nlohmann::json detail = frame.detail.get();
  if (frame.time) detail[kTimeKey] = time_json(*frame.time);
  return detail;
}

bool is_backward(const Frame& frame) {
  return !text_at(frame.detail, "backward_of").empty();
}

std::uint64_t own_time(const Frame& frame) {
  if (frame.layer == Layer::device)
    return count_at(object_at(frame.detail, "duration_ns"), "total");
  std::uint64_t inside = 0;
  for (const Frame& child : frame.children)
    if (!is_backward(child)) inside += total_time(child);
  const std::uint64_t total = total_time(frame);
  return total > inside ? total - inside : 0;
}

}  // namespace optrace
