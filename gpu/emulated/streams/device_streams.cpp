// Streams and events of the emulated device.

#include "gpu/emulated/streams/device_streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <utility>

#include <pthread.h>

#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/streams/stream_objects.h"

namespace optrace::emulated {

std::mutex streams_mutex;
thread_local char this_thread;

StreamObjects& objects() {
  static auto* const all = [] {
    // Never destroyed, because CUDA may be called until the process ends.
    auto* const made = new StreamObjects;
    for (std::size_t i = 0; i < kDefaultStreams; ++i) {
      made->legacy[i].device = static_cast<int>(i);
      made->legacy[i].legacy = true;
    }
    return made;
  }();
  return *all;
}

namespace {

const HeldAcrossFork<streams_mutex> streams_held;

// A thread's own default streams, one per device.
thread_local std::vector<std::unique_ptr<Stream>> own_streams;

Stream* own_stream() {
  const auto device = static_cast<std::size_t>(current_device());
  if (own_streams.size() <= device) own_streams.resize(device + 1);
  auto& stream = own_streams[device];
  if (stream == nullptr) {
    stream = std::make_unique<Stream>();
    stream->device = current_device();
  }
  return stream.get();
}

Event* event_of(void* handle) {
  const auto found = objects().events.find(handle);
  return found == objects().events.end() ? nullptr : found->second.get();
}

bool is_active(const std::shared_ptr<Capture>& capture) {
  const auto& all = objects().captures;
  return capture != nullptr && std::find(all.begin(), all.end(), capture) != all.end();
}

std::atomic<bool> streams_used{false};
std::atomic<bool> forked{false};
const int kFork = pthread_atfork(nullptr, nullptr, [] {
  if (streams_used) forked = true;
});

}  // namespace

Stream* stream_of(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 1) return &objects().legacy[static_cast<std::size_t>(current_device())];
  if (number == 2) return own_stream();
  const auto found = objects().streams.find(handle);
  return found == objects().streams.end() ? nullptr : found->second.get();
}

/// Returns true if a blocking stream is capturing, for which the legacy stream would have to wait.
bool blocking_capture() {
  const StreamObjects& all = objects();
  return !all.captures.empty() &&
         std::any_of(all.streams.begin(), all.streams.end(), [](const auto& entry) {
           return entry.second->capture != nullptr && (entry.second->flags & kNonBlocking) == 0;
         });
}

void record(const char* function, const Operation& operation, const ObservedCall& call,
            std::uint64_t stream) {
  if (operation.work) call.tell(*operation.work, stream);
  if (operation.kind == nullptr || !recording()) return;
  Call recorded(function, operation.kind);
  if (operation.describe) operation.describe(recorded);
  recorded.record();
}

Status use_devices() {
  if (!streams_used.load(std::memory_order_relaxed)) streams_used = true;
  return forked.load(std::memory_order_relaxed) && kFork == 0 ? Status::not_initialized
                                                              : Status::success;
}

Status create_stream(void** handle, unsigned flags, int priority) {
  if (handle == nullptr || flags > kNonBlocking) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  auto stream = std::make_unique<Stream>();
  stream->device = current_device();
  stream->flags = flags;
  stream->priority = std::clamp(priority, kGreatestPriority, kLeastPriority);
  stream->number = ++objects().last_stream;
  *handle = stream.get();
  objects().streams[*handle] = std::move(stream);
  return Status::success;
}

Status destroy_stream(void* handle) {
  const std::lock_guard lock(streams_mutex);
  const auto found = objects().streams.find(handle);
  if (found == objects().streams.end()) return Status::invalid_handle;
  if (found->second->capture != nullptr) invalidate(*found->second->capture);
  objects().streams.erase(found);
  return Status::success;
}

Status stream_state(void* handle, StreamState& state) {
  const std::lock_guard lock(streams_mutex);
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return Status::invalid_handle;
  const Capture* const capture = stream->capture.get();
  state = {stream->device,
           stream->flags,
           stream->priority,
           stream->number,
           stream->legacy,
           capture != nullptr,
           capture != nullptr && capture->invalidated,
           capture == nullptr ? 0 : capture->id,
           capture == nullptr ? nullptr : capture->graph.get(),
           stream->leaves};
  return Status::success;
}

Status submit(void* stream, const char* function, Operation operation, GraphNode** node) {
  if (node != nullptr) *node = nullptr;
  const ObservedCall call(function);
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(streams_mutex);
    Stream* const found = stream_of(stream);
    if (found == nullptr) return Status::invalid_handle;
    if (found->legacy && blocking_capture()) return Status::capture_implicit;
    if (found->capture != nullptr) {
      if (found->capture->invalidated) return Status::capture_invalidated;
      GraphNode* const added = append_to_capture(*found, std::move(operation));
      if (node != nullptr) *node = added;
      return Status::success;
    }
    number = found->number;
  }
  if (operation.run) operation.run();
  record(function, operation, call, number);
  return Status::success;
}

Status synchronize_stream(void* handle) {
  const std::lock_guard lock(streams_mutex);
  const Stream* const stream = stream_of(handle);
  if (stream == nullptr) return Status::invalid_handle;
  if (stream->legacy && blocking_capture()) return Status::capture_implicit;
  if (stream->capture == nullptr) return Status::success;
  invalidate(*stream->capture);
  return Status::capture_unsupported;
}

Status synchronize_device() {
  const std::lock_guard lock(streams_mutex);
  for (const auto& capture : objects().captures) {
    if (capture->origin->device != current_device()) continue;
    invalidate(*capture);
    return Status::capture_unsupported;
  }
  return Status::success;
}

Status create_event(void** handle, unsigned flags) {
  constexpr unsigned kKnownFlags = 7;  // Blocking synchronization, no timing, interprocess.
  if (handle == nullptr || flags > kKnownFlags) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  auto event = std::make_unique<Event>();
  event->device = current_device();
  event->flags = flags;
  *handle = event.get();
  objects().events[*handle] = std::move(event);
  return Status::success;
}

Status destroy_event(void* handle) {
  const std::lock_guard lock(streams_mutex);
  return objects().events.erase(handle) == 0 ? Status::invalid_handle : Status::success;
}

Status record_event(void* event, void* stream, bool external) {
  const std::lock_guard lock(streams_mutex);
  Event* const found = event_of(event);
  Stream* const on = stream_of(stream);
  if (found == nullptr || on == nullptr) return Status::invalid_handle;
  if (found->device != on->device) return Status::invalid_handle;
  if (on->legacy && blocking_capture()) return Status::capture_implicit;
  if (on->capture == nullptr) {
    found->capture = nullptr;
    found->nodes.clear();
    found->recorded = true;
    found->time = std::chrono::steady_clock::now();
    return Status::success;
  }
  if (on->capture->invalidated) return Status::capture_invalidated;
  if (external) {
    append_to_capture(*on, {NodeKind::event_record,
                            nullptr,
                            [event] {
                              const std::lock_guard inner(streams_mutex);
                              Event* const at_launch = event_of(event);
                              if (at_launch == nullptr) return;
                              at_launch->recorded = true;
                              at_launch->time = std::chrono::steady_clock::now();
                            },
                            {}});
    return Status::success;
  }
  found->capture = on->capture;
  found->nodes = on->leaves;
  return Status::success;
}

Status wait_event(void* stream, void* event, bool external) {
  const std::lock_guard lock(streams_mutex);
  const Event* const found = event_of(event);
  Stream* const on = stream_of(stream);
  if (found == nullptr || on == nullptr) return Status::invalid_handle;
  if (on->capture != nullptr && on->capture->invalidated) return Status::capture_invalidated;
  if (external && on->capture != nullptr) {
    append_to_capture(*on, {NodeKind::event_wait, nullptr, {}, {}});
    return Status::success;
  }
  if (found->capture == nullptr) {
    if (on->capture == nullptr || !found->recorded) return Status::success;
    invalidate(*on->capture);
    return Status::capture_isolation;
  }
  if (!is_active(found->capture))
    return on->capture == nullptr ? Status::success : Status::capture_isolation;
  if (on->legacy) {
    invalidate(*found->capture);
    return Status::capture_implicit;
  }
  if (on->capture == nullptr) {
    on->capture = found->capture;
    on->leaves = found->nodes;
    return Status::success;
  }
  if (on->capture != found->capture) {
    invalidate(*on->capture);
    return Status::capture_isolation;
  }
  for (GraphNode* const node : found->nodes)
    if (std::find(on->leaves.begin(), on->leaves.end(), node) == on->leaves.end())
      on->leaves.push_back(node);
  return Status::success;
}

Status query_event(void* event) {
  const std::lock_guard lock(streams_mutex);
  const Event* const found = event_of(event);
  if (found == nullptr) return Status::invalid_handle;
  if (found->capture == nullptr) return Status::success;
  if (is_active(found->capture)) invalidate(*found->capture);
  return Status::captured_event;
}

Status elapsed_time(void* start, void* end, float& milliseconds) {
  const std::lock_guard lock(streams_mutex);
  const Event* const first = event_of(start);
  const Event* const last = event_of(end);
  if (first == nullptr || last == nullptr) return Status::invalid_handle;
  for (const Event* const event : {first, last}) {
    if (event->capture != nullptr) return Status::captured_event;
    if (!event->recorded || (event->flags & kDisableTiming) != 0) return Status::invalid_handle;
  }
  milliseconds = std::chrono::duration<float, std::milli>(last->time - first->time).count();
  return Status::success;
}

}  // namespace optrace::emulated
