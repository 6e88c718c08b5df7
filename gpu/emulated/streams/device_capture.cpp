// Captures of streams into graphs.

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/stream_objects.h"

namespace optrace::emulated {

std::atomic<int> active_captures{0};

namespace {

thread_local CaptureMode interaction = CaptureMode::global;

/// Ends the capture of all streams that joined it. Returns true if one was not joined back to the
/// origin.
bool release_streams(const std::shared_ptr<Capture>& capture, const Stream& origin) {
  std::unordered_set<const GraphNode*> joined;
  std::vector<const GraphNode*> pending(origin.leaves.begin(), origin.leaves.end());
  while (!pending.empty()) {
    const GraphNode* const node = pending.back();
    pending.pop_back();
    if (!joined.insert(node).second) continue;
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  bool unjoined = false;
  for (auto& [handle, other] : objects().streams) {
    if (other->capture != capture) continue;
    for (const GraphNode* const leaf : other->leaves)
      unjoined = unjoined || joined.count(leaf) == 0;
    other->capture = nullptr;
    other->leaves.clear();
  }
  return unjoined;
}

}  // namespace

GraphNode* append_to_capture(Stream& stream, Operation operation) {
  GraphNode* const node = append(*stream.capture->graph, stream.leaves, std::move(operation));
  stream.leaves = {node};
  return node;
}

Status capturing(void* stream, bool& answer, std::uint64_t* number) {
  const std::lock_guard lock(streams_mutex);
  const Stream* const found = stream_of(stream);
  if (found == nullptr) return Status::invalid_handle;
  answer = found->capture != nullptr;
  if (number != nullptr) *number = found->number;
  if (found->legacy && blocking_capture()) return Status::capture_implicit;
  return answer && found->capture->invalidated ? Status::capture_invalidated : Status::success;
}

Status check_unsafe_call() {
  if (interaction == CaptureMode::relaxed) return Status::success;
  const std::lock_guard lock(streams_mutex);
  for (const auto& capture : objects().captures) {
    const bool forbidden =
        capture->thread == &this_thread
            ? capture->mode != CaptureMode::relaxed
            : interaction == CaptureMode::global && capture->mode == CaptureMode::global;
    if (!forbidden) continue;
    invalidate(*capture);
    return Status::capture_unsupported;
  }
  return Status::success;
}

CaptureMode exchange_capture_mode(CaptureMode mode) {
  return std::exchange(interaction, mode);
}

Status begin_capture(void* stream, CaptureMode mode, Graph* into,
                     const std::vector<GraphNode*>& dependencies) {
  const std::lock_guard lock(streams_mutex);
  Stream* const found = stream_of(stream);
  if (found == nullptr) return Status::invalid_handle;
  if (found->legacy) return Status::capture_unsupported;
  if (found->capture != nullptr) return Status::illegal_state;
  auto capture = std::make_shared<Capture>();
  if (into == nullptr) {
    capture->graph = std::make_shared<Graph>();
    objects().graphs[capture->graph.get()] = capture->graph;
  } else {
    const auto known = objects().graphs.find(into);
    if (known == objects().graphs.end()) return Status::invalid_value;
    for (GraphNode* const node : dependencies) {
      const auto of = objects().nodes.find(node);
      if (of == objects().nodes.end() || of->second != into) return Status::invalid_value;
    }
    capture->graph = known->second;
  }
  capture->own_graph = into == nullptr;
  capture->id = ++objects().last_capture;
  capture->mode = mode;
  capture->thread = &this_thread;
  capture->origin = found;
  objects().captures.push_back(capture);
  ++active_captures;
  found->capture = std::move(capture);
  found->leaves = dependencies;
  return Status::success;
}

Status end_capture(void* stream, Graph** graph) {
  if (graph == nullptr) return Status::invalid_value;
  *graph = nullptr;
  const std::lock_guard lock(streams_mutex);
  Stream* const origin = stream_of(stream);
  if (origin == nullptr) return Status::invalid_handle;
  if (origin->capture == nullptr) return Status::illegal_state;
  const std::shared_ptr<Capture> capture = origin->capture;
  if (capture->origin != origin) return Status::capture_unmatched;
  if (capture->mode != CaptureMode::relaxed && capture->thread != &this_thread)
    return Status::capture_wrong_thread;

  const bool unjoined = release_streams(capture, *origin);
  origin->capture = nullptr;
  origin->leaves.clear();
  auto& captures = objects().captures;
  captures.erase(std::find(captures.begin(), captures.end(), capture));
  --active_captures;
  if (capture->invalidated || unjoined) {
    if (capture->own_graph) {
      remove_nodes(*capture->graph);
      objects().graphs.erase(capture->graph.get());
    }
    return capture->invalidated ? Status::capture_invalidated : Status::capture_unjoined;
  }
  *graph = capture->graph.get();
  return Status::success;
}

Status set_capture_dependencies(void* stream, const std::vector<GraphNode*>& nodes, bool replace) {
  const std::lock_guard lock(streams_mutex);
  Stream* const found = stream_of(stream);
  if (found == nullptr) return Status::invalid_handle;
  if (found->capture == nullptr) return Status::illegal_state;
  for (GraphNode* const node : nodes) {
    const auto known = objects().nodes.find(node);
    if (known == objects().nodes.end() || known->second != found->capture->graph.get())
      return Status::invalid_value;
  }
  if (replace) found->leaves.clear();
  for (GraphNode* const node : nodes)
    if (std::find(found->leaves.begin(), found->leaves.end(), node) == found->leaves.end())
      found->leaves.push_back(node);
  return Status::success;
}

void capture_library_call(const std::string& record) {
  if (active_captures == 0) return;
  const std::lock_guard lock(streams_mutex);
  for (const auto& capture : objects().captures) {
    if (capture->thread != &this_thread || capture->invalidated) continue;
    append_to_capture(*capture->origin, {NodeKind::kernel, "library", {}, [record](Call& call) {
                                           call.json().key("captured");
                                           call.json().string(record);
                                         }});
    return;
  }
}

}  // namespace optrace::emulated
