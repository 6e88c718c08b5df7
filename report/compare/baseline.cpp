#include "report/compare/baseline.h"

#include <cstddef>
#include <utility>
#include <vector>

namespace optrace {
namespace {

/// Copies what compare.cpp and call_difference.cpp read.
Detail thinned(const Detail& detail) {
  Detail kept;
  if (detail.dispatch) {
    DispatchDetail& dispatch = kept.dispatch.edit();
    dispatch.step = detail.dispatch->step;
    dispatch.choice.dispatch_key = detail.dispatch->choice.dispatch_key;
    dispatch.choice.kernel = detail.dispatch->choice.kernel;
    dispatch.choice.dispatch = detail.dispatch->choice.dispatch;
  }
  kept.cpu_capability = detail.cpu_capability;
  kept.implementation = detail.implementation;
  kept.library = detail.library;
  kept.calls = detail.calls;
  kept.launches = detail.launches;
  kept.emulated = detail.emulated;
  kept.calls_at_least = detail.calls_at_least;
  kept.reads_device_memory = detail.reads_device_memory;
  kept.returned = detail.returned;
  return kept;
}

/// Copies the compared fields of a frame, without its children.
Frame thinned(const Frame& frame) {
  Frame kept;
  kept.layer = frame.layer;
  kept.name = frame.name;
  kept.op = frame.op;
  kept.calls = frame.calls;
  if (frame.layer == Layer::library) kept.library = frame.library;
  if (Detail detail = thinned(*frame.detail); detail != Detail()) kept.detail = std::move(detail);
  return kept;
}

}  // namespace

Report for_baseline(const Report& report) {
  Report kept;
  kept.torch = report.torch;
  kept.device = report.device;
  kept.dry_run = report.dry_run;
  kept.shortfalls = report.shortfalls;
  if (report.python_calls) kept.python_calls.emplace();  // Of the functions that have frames.
  // Without recursion: trees may be deeper than the call stack allows.
  std::vector<std::pair<const std::vector<Frame>*, std::vector<Frame>*>> pending{
      {&report.roots, &kept.roots}};
  while (!pending.empty()) {
    const auto [from, to] = pending.back();
    pending.pop_back();
    to->reserve(from->size());
    for (const Frame& frame : *from) {
      to->push_back(thinned(frame));
      if (!report.python_calls) continue;
      if (const auto calls = report.python_calls->find(frame.name);
          calls != report.python_calls->end())
        kept.python_calls->insert(*calls);
    }
    for (std::size_t i = 0; i < from->size(); ++i)
      pending.emplace_back(&(*from)[i].children, &(*to)[i].children);
  }
  return kept;
}

}  // namespace optrace
