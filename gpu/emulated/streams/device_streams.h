#pragma once

// Streams, events and graphs, shared by the runtime and the driver. All work is complete when it is
// submitted, so nothing ever waits. Work submitted to a capturing stream is added to its graph
// instead.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/streams/device_observer.h"

namespace optrace::emulated {

/// Values common to cudaError_t and CUresult.
enum class Status : int {
  success = 0,
  invalid_value = 1,
  out_of_memory = 2,
  not_initialized = 3,
  invalid_configuration = 9,  ///< For the runtime; the driver returns invalid_value.
  insufficient_driver = 35,
  invalid_device = 101,
  invalid_image = 200,
  no_binary_for_device = 209,
  not_ready = 600,
  peer_access_already_enabled = 704,
  peer_access_not_enabled = 705,
  invalid_handle = 400,
  illegal_state = 401,
  not_found = 500,
  launch_out_of_resources = 701,
  not_supported = 801,
  capture_unsupported = 900,
  capture_invalidated = 901,
  capture_unmatched = 903,
  capture_unjoined = 904,
  capture_isolation = 905,
  capture_implicit = 906,
  captured_event = 907,
  capture_wrong_thread = 908,
};

/// Returns an error if this process may not use the devices: after a fork() of a process that has
/// used them.
OPTRACE_DEVICE_EXPORT Status use_devices();

/// Values of cudaStreamCaptureMode.
enum class CaptureMode : int { global = 0, thread_local_ = 1, relaxed = 2 };

/// Values of cudaGraphNodeType.
enum class NodeKind : int {
  kernel = 0,
  copy = 1,
  fill = 2,
  host = 3,
  child = 4,
  empty = 5,
  event_wait = 6,
  event_record = 7,
  allocate = 10,
  release = 11,
  conditional = 13,
};

/// An operation of a stream or a graph node. On replay, `run` is called, and the operation is
/// recorded as a call of the launching function with the values added by `describe`. Either may be
/// empty.
struct Operation {
  NodeKind node = NodeKind::empty;
  const char* kind = nullptr;  ///< Kind of a Call; null: not recorded on replay.
  std::function<void()> run;
  std::function<void(Call&)> describe;
  std::optional<Work> work = std::nullopt;  ///< The work reported to a profiler.
};

struct Stream;
struct Event;  // NOLINT(bugprone-forward-declaration-namespace): device_streams.cpp defines it.
struct Graph;
struct GraphExec;

struct GraphNode {
  Operation operation;
  std::vector<GraphNode*> dependencies;
  Graph* graph = nullptr;
  std::shared_ptr<Graph> child;  ///< Run after the operation.
  std::vector<std::shared_ptr<Graph>> bodies;
};

// Streams. A handle is a cudaStream_t: null and 1 are the legacy default stream of the current
// device, 2 is the thread's own default stream. Handles of no existing stream return
// invalid_handle.

OPTRACE_DEVICE_EXPORT Status create_stream(void** handle, unsigned flags, int priority);
OPTRACE_DEVICE_EXPORT Status destroy_stream(void* handle);
/// The lowest and the highest priority: 0 and a negative number.
constexpr int kLeastPriority = 0;
constexpr int kGreatestPriority = -5;

struct StreamState {
  int device;
  unsigned flags;
  int priority;
  std::uint64_t number;  ///< 0 for a default stream; the others are numbered from 1.
  bool legacy;           ///< True for the legacy default stream.
  bool capturing;
  bool invalidated;  ///< True if its capture can't be used any more.
  std::uint64_t capture_id;
  Graph* graph;
  std::vector<GraphNode*> leaves;  ///< Dependencies of the next node.
};
OPTRACE_DEVICE_EXPORT Status stream_state(void* handle, StreamState& state);

/// Runs the operation and records it as a call of `function`. On a capturing stream, it is added to
/// the graph as a node instead, which is stored in `node` (null if not captured).
OPTRACE_DEVICE_EXPORT Status submit(void* stream, const char* function, Operation operation,
                                    GraphNode** node = nullptr);
/// Determines if the stream is capturing. Returns invalid_handle, or capture_implicit if the legacy
/// stream would have to wait for a capturing stream.
OPTRACE_DEVICE_EXPORT Status capturing(void* stream, bool& answer, std::uint64_t* number = nullptr);

/// Synchronization. Fails for a capturing stream.
OPTRACE_DEVICE_EXPORT Status synchronize_stream(void* handle);
OPTRACE_DEVICE_EXPORT Status synchronize_device();

/// Returns an error if the mode of a capture forbids calls that might wait (cudaMalloc, ...).
OPTRACE_DEVICE_EXPORT Status check_unsafe_call();
OPTRACE_DEVICE_EXPORT CaptureMode exchange_capture_mode(CaptureMode mode);

OPTRACE_DEVICE_EXPORT Status begin_capture(void* stream, CaptureMode mode, Graph* into,
                                           const std::vector<GraphNode*>& dependencies);
OPTRACE_DEVICE_EXPORT Status end_capture(void* stream, Graph** graph);
OPTRACE_DEVICE_EXPORT Status set_capture_dependencies(void* stream,
                                                      const std::vector<GraphNode*>& nodes,
                                                      bool replace);

/// Adds a library's work to the capture begun by this thread, if any. On a GPU it would be one or
/// more nodes of the graph.
void capture_library_call(const std::string& record);

// Events.

OPTRACE_DEVICE_EXPORT Status create_event(void** handle, unsigned flags);
OPTRACE_DEVICE_EXPORT Status destroy_event(void* handle);
OPTRACE_DEVICE_EXPORT Status record_event(void* event, void* stream, bool external);
OPTRACE_DEVICE_EXPORT Status wait_event(void* stream, void* event, bool external);
/// Returns success if there is nothing to wait for, which is always the case outside captures.
OPTRACE_DEVICE_EXPORT Status query_event(void* event);
OPTRACE_DEVICE_EXPORT Status elapsed_time(void* start, void* end, float& milliseconds);

// Graphs.

OPTRACE_DEVICE_EXPORT Graph* create_graph();
OPTRACE_DEVICE_EXPORT Status destroy_graph(Graph* graph);
OPTRACE_DEVICE_EXPORT Status add_node(Graph* graph, const std::vector<GraphNode*>& dependencies,
                                      Operation operation, GraphNode** node);
/// Adds a graph that belongs to the node but does not run with it: the body of a conditional node.
OPTRACE_DEVICE_EXPORT Status add_body(GraphNode* node, Graph** body);
OPTRACE_DEVICE_EXPORT Status graph_nodes(Graph* graph, std::vector<GraphNode*>& nodes);
OPTRACE_DEVICE_EXPORT Status node_dependencies(GraphNode* node, std::vector<GraphNode*>& nodes);
/// Keeps an object alive as long as the graph and the graphs made from it.
OPTRACE_DEVICE_EXPORT Status keep_with_graph(Graph* graph, std::shared_ptr<void> kept);
OPTRACE_DEVICE_EXPORT Status clone_graph(Graph* original, Graph** clone);
OPTRACE_DEVICE_EXPORT Status instantiate(Graph* graph, GraphExec** exec);
OPTRACE_DEVICE_EXPORT Status destroy_exec(GraphExec* exec);
/// Replaces the executable's graph by one of the same shape. `same_shape` is false if the shape
/// differs.
OPTRACE_DEVICE_EXPORT Status update_exec(GraphExec* exec, Graph* graph, bool& same_shape);
OPTRACE_DEVICE_EXPORT Status launch_graph(GraphExec* exec, void* stream, const char* function);

}  // namespace optrace::emulated
