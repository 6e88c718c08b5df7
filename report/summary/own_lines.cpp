#include "report/summary/own_lines.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>

#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/own_code.h"
#include "report/model/walk_frames.h"

namespace optrace {

std::vector<OwnLine> own_lines(const Report& report) {
  struct Above {
    std::size_t depth = 0;
    std::size_t own = kNoneOwn;  // See own_place().
    bool in_op = false;
  };
  std::map<std::pair<std::string, std::uint32_t>, OwnLine> lines;
  std::vector<const Frame*> path;
  walk_frames(report.roots, Above{}, [&](const Frame& frame, const Above& above) {
    path.resize(above.depth);
    path.push_back(&frame);
    const std::size_t own = own_place(path, above.own);
    const bool is_op = frame.op && text_at(frame.detail, "step") == "call";
    if (is_backward(frame) || (is_op && !above.in_op)) {
      const FrameSource* const source = source_at(path, own);
      const std::string file = source == nullptr ? "" : source->file;
      const std::uint32_t number = source == nullptr ? 0 : calling_line(path, own);
      OwnLine& line = lines[{file, number}];
      line.file = file;
      line.line = number;
      if (source != nullptr) line.function = frame_name(*path[own]);
      line.calls += frame.calls;
      line.total += total_time(frame);
      line.ops[frame_name(frame)] += total_time(frame);
    }
    return Above{path.size(), own, above.in_op || is_op || is_backward(frame)};
  });
  std::vector<OwnLine> all;
  all.reserve(lines.size());
  for (auto& [place, line] : lines) all.push_back(std::move(line));
  std::ranges::stable_sort(all, std::greater{}, &OwnLine::total);
  return all;
}

}  // namespace optrace
