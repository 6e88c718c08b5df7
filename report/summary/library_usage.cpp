#include "report/summary/library_usage.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "report/model/frame_name.h"
#include "report/model/frame_time.h"
#include "report/model/op_call.h"
#include "report/model/walk_frames.h"

namespace optrace {
namespace {

using Functions = std::map<std::pair<std::string, std::string>, FunctionUsage>;

void add(const Frame& frame, const std::string& library, std::uint64_t took, Functions& functions) {
  FunctionUsage& usage = functions[{library, frame_name(frame)}];
  usage.library = library;
  usage.name = frame_name(frame);
  usage.calls += calls_with_work(frame);
  usage.total += took;
}

void add_copies(const Frame& frame, std::map<std::string, CopyUsage>& copies) {
  for (const LibraryCall& call : frame.detail->calls) {
    if (call.kind != "copy") continue;
    CopyUsage& usage = copies[call.direction];
    usage.direction = call.direction;
    usage.calls += call.calls;
    usage.bytes += call.calls * call.bytes.value_or(0);
  }
}

std::vector<FunctionUsage> sorted(Functions functions) {
  std::vector<FunctionUsage> all;
  all.reserve(functions.size());
  for (auto& [name, usage] : functions) all.push_back(std::move(usage));
  std::ranges::stable_sort(all, std::greater{}, [](const FunctionUsage& one) {
    return std::pair(one.total, one.calls);
  });
  return all;
}

}  // namespace

LibraryUsage library_usage(const Report& report) {
  Functions functions, kernels;
  std::map<std::string, CopyUsage> copies;
  walk_frames(report.roots, false, [&](const Frame& frame, bool in_library) {
    add_copies(frame, copies);
    if (frame.layer == Layer::device) add(frame, "", own_time(frame), kernels);
    if (frame.layer == Layer::library && !in_library)
      add(frame, frame.detail->library, total_time(frame), functions);
    return in_library || frame.layer == Layer::library;
  });
  LibraryUsage usage{sorted(std::move(functions)), sorted(std::move(kernels)), {}};
  usage.copies.reserve(copies.size());
  for (auto& [direction, copy] : copies) usage.copies.push_back(std::move(copy));
  std::ranges::stable_sort(usage.copies, std::greater{}, &CopyUsage::bytes);
  return usage;
}

}  // namespace optrace
