#include "gpu/emulated/streams/device_streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <pthread.h>

#include "gpu/emulated/device/device_fork.h"

namespace optrace::emulated {

struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;  // Each follows its dependencies.
  std::vector<std::shared_ptr<void>> kept;
};

struct GraphExec {
  std::shared_ptr<const Graph> graph;
};

namespace {

struct Capture {
  std::uint64_t id;
  std::shared_ptr<Graph> graph;
  bool own_graph;  // Created for the capture, and passed to the caller that ends it.
  CaptureMode mode;
  const void* thread;
  Stream* origin;
  bool invalidated;
};

}  // namespace

struct Stream {
  int device = 0;
  unsigned flags = 0;
  int priority = 0;
  std::uint64_t number = 0;
  bool legacy = false;
  std::shared_ptr<Capture> capture;
  std::vector<GraphNode*> leaves;
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  std::shared_ptr<Capture> capture;  // The capture in which it was recorded; it then has no time.
  std::vector<GraphNode*> nodes;
};

namespace {

// Values of cudaStreamNonBlocking and cudaEventDisableTiming.
constexpr unsigned kNonBlocking = 1;
constexpr unsigned kDisableTiming = 2;
constexpr std::size_t kMaxDevices = 64;
constexpr std::size_t kDefaultStreams = kMaxDevices;

std::mutex streams_mutex;
const HeldAcrossFork<streams_mutex> streams_held;

/// All existing objects. Handles are addresses; only those found here are dereferenced.
struct Everything {
  std::unordered_map<void*, std::unique_ptr<Stream>> streams;
  std::unordered_map<void*, std::unique_ptr<Event>> events;
  std::unordered_map<Graph*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<GraphExec*, std::shared_ptr<GraphExec>> execs;
  std::unordered_map<GraphNode*, Graph*> nodes;
  std::vector<std::shared_ptr<Capture>> captures;  // Captures in progress.
  Stream legacy[kDefaultStreams];
  std::uint64_t last_stream = 0;
  std::uint64_t last_capture = 0;
};

Everything& everything() {
  static auto* const all = [] {
    // Never destroyed, because CUDA may be called until the process ends.
    auto* const made = new Everything;
    for (std::size_t i = 0; i < kDefaultStreams; ++i) {
      made->legacy[i].device = static_cast<int>(i);
      made->legacy[i].legacy = true;
    }
    return made;
  }();
  return *all;
}

std::atomic<int> captures_going_on{0};
thread_local CaptureMode interaction = CaptureMode::global;
// A thread's own default streams, one per device.
thread_local std::vector<std::unique_ptr<Stream>> own_streams;
thread_local char this_thread;  // Its address identifies the thread.

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

// The following require streams_mutex to be locked.

Stream* stream_of(void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (number <= 1) return &everything().legacy[static_cast<std::size_t>(current_device())];
  if (number == 2) return own_stream();
  const auto found = everything().streams.find(handle);
  return found == everything().streams.end() ? nullptr : found->second.get();
}

Event* event_of(void* handle) {
  const auto found = everything().events.find(handle);
  return found == everything().events.end() ? nullptr : found->second.get();
}

bool going_on(const std::shared_ptr<Capture>& capture) {
  const auto& all = everything().captures;
  return capture != nullptr && std::find(all.begin(), all.end(), capture) != all.end();
}

/// Returns true if a blocking stream is capturing, for which the legacy stream would have to wait.
bool blocking_capture() {
  const Everything& all = everything();
  return !all.captures.empty() &&
         std::any_of(all.streams.begin(), all.streams.end(), [](const auto& entry) {
           return entry.second->capture != nullptr && (entry.second->flags & kNonBlocking) == 0;
         });
}

GraphNode* append(Graph& graph, std::vector<GraphNode*> dependencies, Operation operation) {
  auto node = std::make_unique<GraphNode>();
  node->operation = std::move(operation);
  node->dependencies = std::move(dependencies);
  node->graph = &graph;
  GraphNode* const added = node.get();
  graph.nodes.push_back(std::move(node));
  everything().nodes[added] = &graph;
  return added;
}

GraphNode* append_to_capture(Stream& stream, Operation operation) {
  GraphNode* const node = append(*stream.capture->graph, stream.leaves, std::move(operation));
  stream.leaves = {node};
  return node;
}

void invalidate(Capture& capture) {
  capture.invalidated = true;
}

void forget(const Graph& graph) {
  for (const auto& node : graph.nodes) {
    everything().nodes.erase(node.get());
    if (node->child != nullptr) {
      everything().graphs.erase(node->child.get());
      forget(*node->child);
    }
    for (const auto& body : node->bodies) {
      everything().graphs.erase(body.get());
      forget(*body);
    }
  }
}

/// Copies the nodes with their operations, and the objects kept alive for them.
void copy(const Graph& from, Graph& to, bool known) {
  std::unordered_map<const GraphNode*, GraphNode*> copies;
  for (const auto& node : from.nodes) {
    auto made = std::make_unique<GraphNode>();
    made->operation = node->operation;
    made->graph = &to;
    for (GraphNode* const dependency : node->dependencies)
      if (copies.count(dependency) != 0) made->dependencies.push_back(copies[dependency]);
    if (node->child != nullptr) {
      made->child = std::make_shared<Graph>();
      copy(*node->child, *made->child, known);
    }
    copies[node.get()] = made.get();
    if (known) everything().nodes[made.get()] = &to;
    to.nodes.push_back(std::move(made));
  }
  to.kept = from.kept;
}

bool same_shape(const Graph& one, const Graph& other) {
  return std::equal(one.nodes.begin(), one.nodes.end(), other.nodes.begin(), other.nodes.end(),
                    [](const auto& a, const auto& b) {
                      return a->operation.node == b->operation.node &&
                             a->dependencies.size() == b->dependencies.size() &&
                             (a->child == nullptr) == (b->child == nullptr) &&
                             (a->child == nullptr || same_shape(*a->child, *b->child));
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

void replay(const Graph& graph, const char* function, const ObservedCall& call,
            std::uint64_t stream) {
  for (const auto& node : graph.nodes) {
    if (node->operation.run) node->operation.run();
    record(function, node->operation, call, stream);
    if (node->child != nullptr) replay(*node->child, function, call, stream);
  }
}

std::atomic<bool> used{false};
std::atomic<bool> forked{false};
const int kFork = pthread_atfork(nullptr, nullptr, [] {
  if (used) forked = true;
});

}  // namespace

Status use_devices() {
  if (!used.load(std::memory_order_relaxed)) used = true;
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
  stream->number = ++everything().last_stream;
  *handle = stream.get();
  everything().streams[*handle] = std::move(stream);
  return Status::success;
}

Status destroy_stream(void* handle) {
  const std::lock_guard lock(streams_mutex);
  const auto found = everything().streams.find(handle);
  if (found == everything().streams.end()) return Status::invalid_handle;
  if (found->second->capture != nullptr) invalidate(*found->second->capture);
  everything().streams.erase(found);
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

Status capturing(void* stream, bool& answer, std::uint64_t* number) {
  const std::lock_guard lock(streams_mutex);
  const Stream* const found = stream_of(stream);
  if (found == nullptr) return Status::invalid_handle;
  answer = found->capture != nullptr;
  if (number != nullptr) *number = found->number;
  if (found->legacy && blocking_capture()) return Status::capture_implicit;
  return answer && found->capture->invalidated ? Status::capture_invalidated : Status::success;
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
  for (const auto& capture : everything().captures) {
    if (capture->origin->device != current_device()) continue;
    invalidate(*capture);
    return Status::capture_unsupported;
  }
  return Status::success;
}

Status check_unsafe_call() {
  if (interaction == CaptureMode::relaxed) return Status::success;
  const std::lock_guard lock(streams_mutex);
  for (const auto& capture : everything().captures) {
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
    everything().graphs[capture->graph.get()] = capture->graph;
  } else {
    const auto known = everything().graphs.find(into);
    if (known == everything().graphs.end()) return Status::invalid_value;
    for (GraphNode* const node : dependencies) {
      const auto of = everything().nodes.find(node);
      if (of == everything().nodes.end() || of->second != into) return Status::invalid_value;
    }
    capture->graph = known->second;
  }
  capture->own_graph = into == nullptr;
  capture->id = ++everything().last_capture;
  capture->mode = mode;
  capture->thread = &this_thread;
  capture->origin = found;
  everything().captures.push_back(capture);
  ++captures_going_on;
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

  // Every stream that joined the capture must have been joined back to the origin.
  std::unordered_set<const GraphNode*> joined;
  std::vector<const GraphNode*> pending(origin->leaves.begin(), origin->leaves.end());
  while (!pending.empty()) {
    const GraphNode* const node = pending.back();
    pending.pop_back();
    if (!joined.insert(node).second) continue;
    pending.insert(pending.end(), node->dependencies.begin(), node->dependencies.end());
  }
  bool unjoined = false;
  for (auto& [handle, other] : everything().streams) {
    if (other->capture != capture) continue;
    for (const GraphNode* const leaf : other->leaves)
      unjoined = unjoined || joined.count(leaf) == 0;
    other->capture = nullptr;
    other->leaves.clear();
  }
  origin->capture = nullptr;
  origin->leaves.clear();
  auto& captures = everything().captures;
  captures.erase(std::find(captures.begin(), captures.end(), capture));
  --captures_going_on;
  if (capture->invalidated || unjoined) {
    if (capture->own_graph) {
      forget(*capture->graph);
      everything().graphs.erase(capture->graph.get());
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
    const auto known = everything().nodes.find(node);
    if (known == everything().nodes.end() || known->second != found->capture->graph.get())
      return Status::invalid_value;
  }
  if (replace) found->leaves.clear();
  for (GraphNode* const node : nodes)
    if (std::find(found->leaves.begin(), found->leaves.end(), node) == found->leaves.end())
      found->leaves.push_back(node);
  return Status::success;
}

void capture_library_call(const std::string& record) {
  if (captures_going_on == 0) return;
  const std::lock_guard lock(streams_mutex);
  for (const auto& capture : everything().captures) {
    if (capture->thread != &this_thread || capture->invalidated) continue;
    append_to_capture(*capture->origin, {NodeKind::kernel, "library", {}, [record](Call& call) {
                                           call.json().key("captured");
                                           call.json().string(record);
                                         }});
    return;
  }
}

Status create_event(void** handle, unsigned flags) {
  constexpr unsigned kKnownFlags = 7;  // Blocking synchronization, no timing, interprocess.
  if (handle == nullptr || flags > kKnownFlags) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  auto event = std::make_unique<Event>();
  event->device = current_device();
  event->flags = flags;
  *handle = event.get();
  everything().events[*handle] = std::move(event);
  return Status::success;
}

Status destroy_event(void* handle) {
  const std::lock_guard lock(streams_mutex);
  return everything().events.erase(handle) == 0 ? Status::invalid_handle : Status::success;
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
  if (!going_on(found->capture))
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
  if (going_on(found->capture)) invalidate(*found->capture);
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

Graph* create_graph() {
  const std::lock_guard lock(streams_mutex);
  auto graph = std::make_shared<Graph>();
  Graph* const made = graph.get();
  everything().graphs[made] = std::move(graph);
  return made;
}

Status destroy_graph(Graph* graph) {
  std::shared_ptr<Graph> last;  // Its objects are released without the lock.
  const std::lock_guard lock(streams_mutex);
  const auto found = everything().graphs.find(graph);
  if (found == everything().graphs.end()) return Status::invalid_value;
  last = found->second;
  forget(*graph);
  everything().graphs.erase(found);
  return Status::success;
}

Status add_node(Graph* graph, const std::vector<GraphNode*>& dependencies, Operation operation,
                GraphNode** node) {
  if (node == nullptr) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  if (everything().graphs.count(graph) == 0) return Status::invalid_value;
  for (GraphNode* const dependency : dependencies) {
    const auto known = everything().nodes.find(dependency);
    if (known == everything().nodes.end() || known->second != graph) return Status::invalid_value;
  }
  *node = append(*graph, dependencies, std::move(operation));
  return Status::success;
}

Status add_body(GraphNode* node, Graph** body) {
  const std::lock_guard lock(streams_mutex);
  if (body == nullptr || everything().nodes.count(node) == 0) return Status::invalid_value;
  node->bodies.push_back(std::make_shared<Graph>());
  *body = node->bodies.back().get();
  everything().graphs[*body] = node->bodies.back();
  return Status::success;
}

Status graph_nodes(Graph* graph, std::vector<GraphNode*>& nodes) {
  const std::lock_guard lock(streams_mutex);
  if (everything().graphs.count(graph) == 0) return Status::invalid_value;
  nodes.clear();
  for (const auto& node : graph->nodes) nodes.push_back(node.get());
  return Status::success;
}

Status node_dependencies(GraphNode* node, std::vector<GraphNode*>& nodes) {
  const std::lock_guard lock(streams_mutex);
  if (everything().nodes.count(node) == 0) return Status::invalid_value;
  nodes = node->dependencies;
  return Status::success;
}

Status keep_with_graph(Graph* graph, std::shared_ptr<void> kept) {
  const std::lock_guard lock(streams_mutex);
  if (everything().graphs.count(graph) == 0) return Status::invalid_value;
  graph->kept.push_back(std::move(kept));
  return Status::success;
}

Status clone_graph(Graph* original, Graph** clone) {
  if (clone == nullptr) return Status::invalid_value;
  const std::lock_guard lock(streams_mutex);
  if (everything().graphs.count(original) == 0) return Status::invalid_value;
  auto made = std::make_shared<Graph>();
  copy(*original, *made, true);
  *clone = made.get();
  everything().graphs[*clone] = std::move(made);
  return Status::success;
}

Status instantiate(Graph* graph, GraphExec** exec) {
  if (exec == nullptr) return Status::invalid_value;
  *exec = nullptr;
  const std::lock_guard lock(streams_mutex);
  if (everything().graphs.count(graph) == 0) return Status::invalid_value;
  auto copied = std::make_shared<Graph>();
  copy(*graph, *copied, false);
  auto made = std::make_shared<GraphExec>();
  made->graph = std::move(copied);
  *exec = made.get();
  everything().execs[*exec] = std::move(made);
  return Status::success;
}

Status destroy_exec(GraphExec* exec) {
  std::shared_ptr<GraphExec> last;
  const std::lock_guard lock(streams_mutex);
  const auto found = everything().execs.find(exec);
  if (found == everything().execs.end()) return Status::invalid_value;
  last = found->second;
  everything().execs.erase(found);
  return Status::success;
}

Status update_exec(GraphExec* exec, Graph* graph, bool& same) {
  std::shared_ptr<const Graph> last;
  const std::lock_guard lock(streams_mutex);
  const auto found = everything().execs.find(exec);
  if (found == everything().execs.end() || everything().graphs.count(graph) == 0)
    return Status::invalid_value;
  same = same_shape(*found->second->graph, *graph);
  if (!same) return Status::success;
  auto made = std::make_shared<Graph>();
  copy(*graph, *made, false);
  last = std::exchange(found->second->graph, std::move(made));
  return Status::success;
}

Status launch_graph(GraphExec* exec, void* stream, const char* function) {
  const ObservedCall call(function);
  std::shared_ptr<const Graph> launched;
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(streams_mutex);
    const auto found = everything().execs.find(exec);
    if (found == everything().execs.end()) return Status::invalid_value;
    launched = found->second->graph;
    Stream* const on = stream_of(stream);
    if (on == nullptr) return Status::invalid_handle;
    if (on->legacy && blocking_capture()) return Status::capture_implicit;
    if (on->capture != nullptr) {
      // A graph launched into a capture becomes a node with its own copy of the graph.
      if (on->capture->invalidated) return Status::capture_invalidated;
      GraphNode* const node = append_to_capture(*on, {NodeKind::child, nullptr, {}, {}});
      node->child = std::make_shared<Graph>();
      copy(*launched, *node->child, true);
      everything().graphs[node->child.get()] = node->child;
      return Status::success;
    }
    number = on->number;
  }
  replay(*launched, function, call, number);
  return Status::success;
}

}  // namespace optrace::emulated
