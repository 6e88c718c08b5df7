#include "report/summary/user_lines.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <tuple>
#include <utility>

#include <fmt/core.h>

#include "platform/text/printable_text.h"
#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

// By file, line, and the reason for none.
using LinesByPlace = std::map<std::tuple<std::string, std::uint32_t, std::string>, UserLine>;

// Returns why the ops below a node have no line; `node` is null if they are below none.
std::string why_no_line(const NodeDetail* node) {
  if (node == nullptr) return "no line of the program is known";
  return node->node == "torch::autograd::AccumulateGrad"
             ? "no line: AccumulateGrad stores gradients of leaves, which no op made"
             : fmt::format("no line: the op of {} is not in the trace", printable(node->node));
}

// Returns the line of the program that leads to the last frame of `path`. For calls that
// torch.compile generated, it is the line that they come from.
UserLine& line_of(const std::vector<const Frame*>& path, std::size_t user_frame,
                  const Origin* origin, const NodeDetail* node, LinesByPlace& lines) {
  const FrameSource* const source = source_at(path, user_frame);
  std::string file = source == nullptr ? "" : source->file;
  std::uint32_t number = source == nullptr ? 0 : calling_line(path, user_frame);
  std::string function = source == nullptr ? "" : frame_name(*path[user_frame]);
  if (origin != nullptr) {
    if (origin->file != file) function.clear();
    file = origin->file;
    number = origin->line;
  }
  const std::string why = file.empty() ? why_no_line(node) : "";
  UserLine& line = lines[{file, number, why}];
  line.why_no_line = why;
  line.file = file;
  line.line = number;
  if (line.function.empty()) line.function = std::move(function);
  return line;
}

}  // namespace

std::vector<UserLine> user_lines(const Report& report) {
  struct Above {
    std::size_t depth = 0;
    std::size_t user_frame = kNoUserFrame;  // See innermost_user_frame().
    bool in_op = false;
    const Origin* origin = nullptr;    // See origin_of(); of the frame or the nearest above.
    const NodeDetail* node = nullptr;  // The nearest above.
  };
  LinesByPlace lines;
  std::vector<const Frame*> path;
  walk_frames(report.roots, Above{}, [&](const Frame& frame, const Above& above) {
    path.resize(above.depth);
    path.push_back(&frame);
    const std::size_t user_frame = innermost_user_frame(path, above.user_frame);
    const bool is_op = frame.op && is_op_call(frame);
    const Origin* origin = is_backward(frame) ? nullptr : origin_of(frame);
    if (origin == nullptr && !is_backward(frame)) origin = above.origin;
    const NodeDetail* const node = frame.detail->node ? &*frame.detail->node : above.node;
    const bool is_work = is_op || is_generated_kernel(frame);
    if (is_backward(frame) || (is_work && !above.in_op)) {
      UserLine& line = line_of(path, user_frame, origin, node, lines);
      line.calls += frame.calls;
      line.total += total_time(frame);
      line.ops[frame_name(frame)] += total_time(frame);
    }
    return Above{path.size(), user_frame, above.in_op || is_work || is_backward(frame), origin,
                 node};
  });
  std::vector<UserLine> all;
  all.reserve(lines.size());
  for (auto& [place, line] : lines) all.push_back(std::move(line));
  std::ranges::stable_sort(all, std::greater{}, &UserLine::total);
  return all;
}

}  // namespace optrace
