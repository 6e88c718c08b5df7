#include "report/findings/unseen_writes.h"

#include <algorithm>
#include <string>

#include "report/findings/device_copies.h"
#include "report/model/json_fields.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Json = nlohmann::json;

// Returns true for device work that is no kernel.
bool writes_memory(const Frame& frame) {
  if (!frame.detail.is_object()) return false;
  const auto calls = frame.detail.find("calls");
  return calls != frame.detail.end() && calls->is_array() &&
         std::ranges::any_of(*calls, [](const Json& call) {
           const std::string kind = text_at(call, "kind");
           return kind == "copy" || kind == "fill";
         });
}

}  // namespace

bool may_have_unseen_writes(const Report& report) {
  // Work outside of the selected ops is not in the report.
  if (report.meta.is_object() && report.meta.contains("selection")) return true;
  if (std::ranges::any_of(report.shortfalls, [](const Shortfall& shortfall) {
        return shortfall.kind == "device_work_missing" || shortfall.kind == "events_lost";
      }))
    return true;
  bool any = false;
  bool outside = false;
  walk_frames(report.roots, false, [&](const Frame& frame, bool in_op) {
    in_op = in_op || is_op_call(frame);
    if (frame.layer == Layer::device || writes_memory(frame)) (in_op ? any : outside) = true;
    return in_op;
  });
  return outside || !any;
}

}  // namespace optrace
