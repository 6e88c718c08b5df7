#include "report/compiled/fused_kernels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include <nlohmann/json.hpp>

#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/json_fields.h"
#include "report/model/own_code.h"
#include "report/model/walk_frames.h"

namespace optrace {
std::vector<FusedLine> fused_lines(const nlohmann::json& origins) {
  std::vector<FusedLine> lines;
  for (const nlohmann::json& origin : origins) {
    const std::string file = text_at(origin, "file");
    const std::uint64_t number = count_at(origin, "line");
    auto line = std::ranges::find_if(
        lines, [&](const FusedLine& one) { return one.file == file && one.line == number; });
    if (line == lines.end()) line = lines.insert(line, {file, number, {}});
    if (std::string op = text_at(origin, "op");
        !op.empty() && std::ranges::find(line->ops, op) == line->ops.end())
      line->ops.push_back(std::move(op));
  }
  return lines;
}

std::vector<FusedKernel> fused_kernels(const Report& report) {
  std::map<std::pair<std::string, nlohmann::json>, FusedKernel> kernels;
  walk_frames(report.roots, 0, [&](const Frame& frame, int depth) {
    const bool on_device = frame.layer == Layer::device;
    if (is_generated_kernel(frame) || (on_device && frame.detail.contains("origins"))) {
      FusedKernel& kernel = kernels[{frame_name(frame), frame.detail["origins"]}];
      kernel.calls += frame.calls;
      kernel.total += on_device ? own_time(frame) : total_time(frame);
    }
    return depth;
  });
  std::vector<FusedKernel> all;
  all.reserve(kernels.size());
  for (auto& [key, kernel] : kernels) {
    kernel.name = key.first;
    kernel.lines = fused_lines(key.second);
    all.push_back(std::move(kernel));
  }
  std::ranges::stable_sort(all, std::greater{}, &FusedKernel::total);
  return all;
}

}  // namespace optrace
