#include "report/merge/workspace_queries.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pytorch/functions/dispatcher_steps.h"
#include "pytorch/functions/fortran_routines.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// Dispatcher steps have records of ops, not of calls of libraries.
bool may_lack_records(const Trace& trace) {
  return trace.meta.shortfalls.contains("events_lost") ||
         trace.meta.shortfalls.contains("texts_lost") ||
         std::ranges::any_of(trace.paths, [&](const TracePath& path) {
           return path.ops_left_out != 0 && path.kind == PathKind::function && path.what != kNone &&
                  !dispatcher_step_of_symbol(trace.functions[path.what].symbol);
         });
}

std::uint64_t recorded_calls(const Frame& frame) {
  std::uint64_t calls = 0;
  for (const LibraryCall& call : frame.detail->calls)
    if (call.library == "LAPACK") calls += call.calls;
  return calls;
}

void add_to(std::vector<Frame>& frames, const std::set<std::string>& recorded) {
  for (Frame& frame : frames) {
    if (frame.layer == Layer::library && recorded.contains(frame.name))
      if (const std::uint64_t calls = recorded_calls(frame); calls < frame.calls)
        frame.detail.edit().workspace_queries = frame.calls - calls;
    add_to(frame.children, recorded);
  }
}

}  // namespace

void add_workspace_queries(Report& report, const Trace& trace) {
  std::set<std::string> recorded;
  walk_frames(report.roots, 0, [&](const Frame& frame, int) {
    if (frame.layer == Layer::library && recorded_calls(frame) != 0 &&
        has_workspace_query(frame.name))
      recorded.insert(frame.name);
    return 0;
  });
  if (!recorded.empty() && !may_lack_records(trace)) add_to(report.roots, recorded);
}

}  // namespace optrace
