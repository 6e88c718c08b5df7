#include "report/merge/library_calls.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"
#include "pytorch/installed/wheel_libraries.h"
#include "pytorch/symbols/symbol_key.h"
#include "pytorch/symbols/symbol_name.h"

namespace optrace {
namespace {

// Makes the frame of a failed library function that has no probe.
Frame make_failed_frame(CallDetails::Failed failed) {
  Frame frame;
  frame.layer = Layer::library;
  frame.name = std::move(failed.function);
  frame.calls = std::max<std::uint64_t>(failed.calls, 1);
  Detail detail;
  detail.library = library_name(frame.name);
  detail.calls = std::move(failed.records);
  frame.detail = std::move(detail);
  return frame;
}

// Returns the function that a call record names, if it is not the frame's own.
std::string called_function(const LibraryCall& call) {
  if (!call.function.empty() && call.library == "oneDNN") return std::string(kOneDnnEntry);
  return call.function;
}

}  // namespace

void LibraryCalls::add_calls(const ReportPath& path, Frame& frame, Detail& detail,
                             std::vector<std::uint32_t>& order) const {
  std::vector<OpCallCount> counts;
  std::vector<std::uint32_t> of;                          // For each count, its path in the trace.
  std::unordered_map<std::uint32_t, std::size_t> places;  // Index in `counts`, by record.
  for_each_traced_work(path, trace_, [&](const TracePath& one, std::uint32_t traced) {
    for (const OpCallCount& counted : one.ops) {
      const auto [same, added] = places.emplace(counted.record, counts.size());
      if (!added) {
        counts[same->second].calls += counted.calls;
        continue;
      }
      counts.push_back(counted);
      of.push_back(traced);
    }
  });
  if (counts.empty()) return;
  CallDetails::Calls calls = calls_.of(frame.name, counts);
  detail.calls = std::move(calls.calls);
  detail.reads_device_memory = calls.reads_device;
  add_kernel_frames(std::move(calls.kernels), of, frame, order);
  for (CallDetails::Failed& failed : calls.failed) {
    frame.children.push_back(make_failed_frame(std::move(failed)));
    order.push_back(path.traced);
  }
}

void LibraryCalls::add_work(const ReportPath& path, Frame& frame,
                            std::vector<std::uint32_t>& order) const {
  std::vector<ActivityCount> counts;
  std::vector<std::uint32_t> of;
  std::uint64_t left_out = 0;
  for_each_traced_work(path, trace_, [&](const TracePath& one, std::uint32_t traced) {
    counts.insert(counts.end(), one.activities.begin(), one.activities.end());
    of.resize(counts.size(), traced);
    left_out += one.activities_left_out;
  });
  if (counts.empty()) return;
  CallDetails::Calls work = calls_.of(counts);
  if (!work.calls.empty() || left_out != 0) {
    Detail& detail = frame.detail.edit();
    std::ranges::move(work.calls, std::back_inserter(detail.calls));
    detail.device_work_left_out = left_out;
  }
  add_kernel_frames(std::move(work.kernels), of, frame, order);
}

// `of` has the path in the trace for each count.
void LibraryCalls::add_kernel_frames(std::vector<CallDetails::Kernel> kernels,
                                     const std::vector<std::uint32_t>& of, Frame& frame,
                                     std::vector<std::uint32_t>& order) const {
  for (CallDetails::Kernel& kernel : kernels) {
    order.push_back(of[kernel.first]);
    frame.children.push_back(make_kernel_frame(std::move(kernel)));
  }
}

Frame LibraryCalls::make_kernel_frame(CallDetails::Kernel kernel) const {
  Frame frame;
  frame.layer = Layer::device;
  frame.name = qualified_name(kernel.symbol);
  frame.calls = kernel.calls;
  if (times_ && kernel.duration)
    frame.time = FrameTime{kernel.duration->total,
                           FrameTime::Range{kernel.duration->shortest, kernel.duration->longest}};
  Detail detail;
  detail.launches = std::move(kernel.launches);
  detail.duration = kernel.duration;
  frame.detail = std::move(detail);
  frame.source =
      functions_.definition_of({canonical_symbol(kernel.symbol), source_file_of(kernel.symbol, {}),
                                std::string(kTorchCuda)});
  frame.symbol = std::move(kernel.symbol);
  return frame;
}

bool LibraryCalls::assign_calls_to_callees(const ReportPath& path, Frame& frame) {
  if (frame.detail->calls.empty()) return false;
  Detail& detail = frame.detail.edit();
  std::vector<LibraryCall> kept;
  std::unordered_map<std::string_view, std::vector<std::size_t>> children;  // Indexes, by name.
  for (std::size_t i = 0; i < frame.children.size(); ++i)
    children[frame.children[i].name].push_back(i);
  std::vector<Frame> made;
  std::unordered_map<std::string, std::size_t> places;  // Index in `made`, by name.
  for (LibraryCall& call : detail.calls) {
    const std::string name = called_function(call);
    const auto found = children.find(name);
    const std::size_t callees = found == children.end() ? 0 : found->second.size();
    if (name.empty() || callees > 1 || (callees == 0 && frame.layer == Layer::library)) {
      kept.push_back(std::move(call));
      continue;
    }
    const auto [place, added] =
        callees == 1 ? std::pair(places.end(), false) : places.emplace(name, made.size());
    if (added) made.push_back(make_called_frame(path, frame, name));
    Frame& callee = callees == 1 ? frame.children[found->second.front()] : made[place->second];
    if (callees == 0) callee.calls += call.calls;
    if (call.function == name) call.function.clear();
    callee.detail.edit().calls.push_back(std::move(call));
  }
  // Their own kernels, if any, are children of this frame.
  const auto kernels = std::ranges::find(frame.children, Layer::device, &Frame::layer);
  frame.children.insert(kernels, std::make_move_iterator(made.begin()),
                        std::make_move_iterator(made.end()));
  detail.calls = std::move(kept);
  if (detail == Detail()) frame.detail = {};
  return true;
}

// Makes a frame for a library function that has no entry in the trace.
Frame LibraryCalls::make_called_frame(const ReportPath& path, const Frame& caller,
                                      const std::string& name) {
  Frame frame;
  frame.layer = Layer::library;
  frame.name = name;
  frame.symbol = name;
  frame.calls = 0;
  frame.thread = caller.thread;
  if (const std::string_view library = library_name(name); !library.empty())
    frame.detail.edit().library = library;
  if (!call_lines_ || path.kind != PathKind::function || path.what == kNone) return frame;
  if (const std::vector<SourceLocation> lines =
          call_lines_->find(functions_[path.what].indexed, {.symbol = canonical_symbol(name)});
      !lines.empty())
    set_call_line(lines, functions_, frame);
  return frame;
}

void set_call_line(const std::vector<SourceLocation>& lines, const TracedFunctions& functions,
                   Frame& frame) {
  if (lines.front().line == 0) return;  // The index doesn't have the line of one of the calls.
  FrameSource& source = frame.source.edit();
  source.call_line = lines.front().line;
  source.call_approximate = functions.approximation_of(lines.front());
  // It is one of several lines, so it is exact only if all of them are.
  for (const SourceLocation& line : lines)
    if (!source.call_approximate && functions.approximation_of(line))
      source.call_approximate = LineInterval();
}

}  // namespace optrace
