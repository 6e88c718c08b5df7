#include "report/compare/baseline.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace optrace {
namespace {

// The keys of detail that compare.cpp and call_difference.cpp read.
constexpr auto kKept = std::to_array<const char*>(
    {"step", "dispatch_key", "kernel", "dispatch", "cpu_capability", "implementation", "library",
     "calls", "launches", "emulated", "reads_device_memory", "returned"});

/// Copies the compared fields of a frame, without its children.
Frame thinned(const Frame& frame) {
  Frame kept;
  kept.layer = frame.layer;
  kept.name = frame.name;
  kept.op = frame.op;
  kept.calls = frame.calls;
  if (frame.layer == Layer::library) kept.library = frame.library;
  if (!frame.detail.is_object()) return kept;
  for (const char* const key : kKept) {
    const auto found = frame.detail.find(key);
    if (found != frame.detail.end()) kept.detail.edit()[key] = *found;
  }
  return kept;
}

}  // namespace

Report for_baseline(const Report& report) {
  Report kept;
  kept.torch = report.torch;
  kept.device = report.device;
  kept.dry_run = report.dry_run;
  kept.shortfalls = report.shortfalls;
  // Without recursion: trees may be deeper than the call stack allows.
  std::vector<std::pair<const std::vector<Frame>*, std::vector<Frame>*>> pending{
      {&report.roots, &kept.roots}};
  while (!pending.empty()) {
    const auto [from, to] = pending.back();
    pending.pop_back();
    to->reserve(from->size());
    for (const Frame& frame : *from) to->push_back(thinned(frame));
    for (std::size_t i = 0; i < from->size(); ++i)
      pending.emplace_back(&(*from)[i].children, &(*to)[i].children);
  }
  return kept;
}

}  // namespace optrace
