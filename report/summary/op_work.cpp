#include "report/summary/op_work.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "pytorch/functions/generated_names.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/installed/wheel_libraries.h"
#include "report/model/frame_name.h"

namespace optrace {
namespace {

// A function that took less than this part of the time of the first doesn't share the work.
constexpr std::uint64_t kShare = 10;

WorkKind kind_of_library(const Frame& frame) {
  const std::string_view name = frame.name;
  if (is_library_bookkeeping(name) || launches_kernel(name) || waits_for_device(name))
    return WorkKind::none;
  return library_name(name) == "CUDA" ? WorkKind::copy : WorkKind::compute;
}

// Returns the kind of a function of PyTorch or of an extension that may be in the dispatch table.
WorkKind kind_of_kernel(const Frame& frame) {
  const bool of_torch = !frame.library || is_torch_library(*frame.library);
  if (frame.layer == Layer::runtime && !of_torch) return WorkKind::kernel;
  if (frame.layer == Layer::python) return WorkKind::kernel;
  if (frame.name.find("::~") != std::string::npos) return WorkKind::aside;
  if (frame.layer != Layer::kernel) return WorkKind::none;
  if (frame.name.starts_with("at::meta::") ||
      classify(frame.name, frame.library.value_or("")).visibility != Visibility::always)
    return WorkKind::aside;
  return is_wrapper(frame.name) ? WorkKind::wrapper : WorkKind::kernel;
}

// Returns true if a function shares the work with the one that is named.
bool shares(const Work& one, const Work& named) {
  if (one.kind == named.kind) return one.time >= named.time / kShare;
  return one.kind == WorkKind::launched && named.kind == WorkKind::compute;
}

}  // namespace

WorkKind work_kind(const Frame& frame, WorkKind above) {
  if (above == WorkKind::aside) return above;
  WorkKind kind = WorkKind::none;
  if (frame.layer == Layer::device)
    kind = frame.detail->duration ? WorkKind::measured : WorkKind::launched;
  else if (frame.layer == Layer::library)
    kind = kind_of_library(frame);
  else if (!frame.detail->cpu_capability.empty())
    kind = WorkKind::compute;
  else if (above <= WorkKind::wrapper)
    kind = kind_of_kernel(frame);
  return kind == WorkKind::aside ? kind : std::max(kind, above);
}

std::string name_of_work(const Frame& frame) {
  const std::string name = frame_name(frame);
  return name.substr(0, name.find("::{lambda"));
}

MainWork main_work(const std::map<std::string, Work>& works) {
  const auto named = std::ranges::max_element(works, {}, [](const auto& one) {
    return std::tuple(one.second.kind, one.second.time, one.second.calls);
  });
  if (named == works.end()) return {};
  const auto sharing = std::ranges::count_if(
      works, [&](const auto& one) { return shares(one.second, named->second); });
  return {named->first, sharing - 1};
}

}  // namespace optrace
