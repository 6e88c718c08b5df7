#include "report/compiled/fused_kernels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/user_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

struct ComesBefore {
  bool operator()(const Origin& one, const Origin& other) const {
    return one.fields() < other.fields();
  }
  bool operator()(const std::vector<Origin>& one, const std::vector<Origin>& other) const {
    return std::ranges::lexicographical_compare(one, other, *this);
  }
};

}  // namespace

std::vector<FusedLine> fused_lines(const std::vector<Origin>& origins) {
  std::vector<FusedLine> lines;
  for (const Origin& origin : origins) {
    auto line = std::ranges::find_if(lines, [&](const FusedLine& one) {
      return one.file == origin.file && one.line == origin.line;
    });
    if (line == lines.end()) line = lines.insert(line, {origin.file, origin.line, {}});
    if (!origin.op.empty() && std::ranges::find(line->ops, origin.op) == line->ops.end())
      line->ops.push_back(origin.op);
  }
  return lines;
}

std::vector<FusedKernel> fused_kernels(const Report& report) {
  std::map<std::string, std::map<std::vector<Origin>, FusedKernel, ComesBefore>> kernels;
  walk_frames(report.roots, 0, [&](const Frame& frame, int depth) {
    const bool on_device = frame.layer == Layer::device;
    if (is_generated_kernel(frame) || (on_device && !frame.detail->origins.empty())) {
      FusedKernel& kernel = kernels[frame_name(frame)][frame.detail->origins];
      kernel.calls += frame.calls;
      kernel.total += on_device ? own_time(frame) : total_time(frame);
    }
    return depth;
  });
  std::vector<FusedKernel> all;
  for (auto& [name, with_name] : kernels)
    for (auto& [origins, kernel] : with_name) {
      kernel.name = name;
      kernel.lines = fused_lines(origins);
      all.push_back(std::move(kernel));
    }
  std::ranges::stable_sort(all, std::greater{}, &FusedKernel::total);
  return all;
}

}  // namespace optrace
