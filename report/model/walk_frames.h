#pragma once

#include <ranges>
#include <utility>
#include <vector>

#include "report/model/report.h"

namespace optrace {

/// Calls visit(frame, above) for each frame, parents first and in call order. `above` is what visit
/// returned for the frame's parent; `outermost` for a root. Walks without recursion: a tree may be
/// as deep as the traced program's recursion. `roots` is a vector of frames; visit may change a
/// frame, but not move it.
template <class Frames, class Above, class Visit>
void walk_frames(Frames& roots, const Above& outermost, const Visit& visit) {
  std::vector<std::pair<decltype(roots.data()), Above>> pending;
  const auto add = [&pending](auto& frames, const Above& above) {
    for (auto& frame : std::views::reverse(frames)) pending.emplace_back(&frame, above);
  };
  add(roots, outermost);
  while (!pending.empty()) {
    const auto [frame, above] = std::move(pending.back());
    pending.pop_back();
    add(frame->children, visit(*frame, above));
  }
}

}  // namespace optrace
