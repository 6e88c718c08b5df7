#include "report/findings/unseen_writes.h"

#include <algorithm>

#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// Returns true for device work that is no kernel.
bool writes_memory(const Frame& frame) {
  return std::ranges::any_of(frame.detail->calls, [](const LibraryCall& call) {
    return call.kind == "copy" || call.kind == "fill";
  });
}

}  // namespace

bool may_have_unseen_writes(const Report& report) {
  // Work outside of the selected ops is not in the report.
  if (report.recording.has_selection) return true;
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
