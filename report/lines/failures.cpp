#include "report/lines/failures.h"

#include <cstddef>
#include <utility>

#include "report/details/call_detail.h"
#include "report/model/walk_frames.h"

namespace optrace {

std::vector<Failure> failures(const Report& report) {
  std::vector<Failure> found;
  std::vector<const Frame*> path;
  walk_frames(report.roots, std::size_t{0}, [&](const Frame& frame, std::size_t above) {
    path.resize(above);
    path.push_back(&frame);
    if (auto failure = call_failure(*frame.detail)) {
      found.push_back({.path = path,
                       .error = std::move(failure->error),
                       .why = std::move(failure->why),
                       .refused = failure->refused,
                       .calls = failure->calls});
    }
    return path.size();
  });
  return found;
}

}  // namespace optrace
