#include "report/output/failures.h"

#include <cstddef>
#include <utility>

#include "report/model/call_detail.h"

namespace optrace {

std::vector<Failure> failures(const Report& report) {
  std::vector<Failure> found;
  std::vector<const Frame*> path;
  // No recursion: trees may be deeper than the call stack allows.
  std::vector<std::pair<const Frame*, std::size_t>> pending;  // (frame, frames above it)
  for (auto root = report.roots.rbegin(); root != report.roots.rend(); ++root)
    pending.emplace_back(&*root, 0);
  while (!pending.empty()) {
    const auto [frame, above] = pending.back();
    pending.pop_back();
    path.resize(above);
    path.push_back(frame);
    if (auto failure = call_failure(frame->detail)) {
      found.push_back({.path = path,
                       .error = std::move(failure->error),
                       .why = std::move(failure->why),
                       .refused = failure->refused,
                       .calls = failure->calls});
    }
    for (auto child = frame->children.rbegin(); child != frame->children.rend(); ++child)
      pending.emplace_back(&*child, path.size());
  }
  return found;
}

}  // namespace optrace
