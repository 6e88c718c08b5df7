// Graphs of the CUDA runtime: capture, nodes, instantiation and replay.

#include <atomic>
#include <cstdio>
#include <memory>
#include <vector>

#include <cuda_runtime_api.h>

#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/libraries/cuda/cudart.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

namespace optrace::emulated {
namespace {

Graph* graph_of(cudaGraph_t graph) {
  return reinterpret_cast<Graph*>(graph);
}
GraphExec* exec_of(cudaGraphExec_t exec) {
  return reinterpret_cast<GraphExec*>(exec);
}
GraphNode* node_of(cudaGraphNode_t node) {
  return reinterpret_cast<GraphNode*>(node);
}

/// Storage for the nodes returned by capture_info(); valid until the thread's next call.
thread_local std::vector<cudaGraphNode_t> handed_out;

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* capture_status,
                         unsigned long long* id, cudaGraph_t* graph,
                         const cudaGraphNode_t** dependencies, std::size_t* count,
                         const char* function = __builtin_FUNCTION()) {
  if (capture_status == nullptr) return result(cudaErrorInvalidValue, function);
  StreamState state{};
  const Status status = stream_state(stream, state);
  if (status != Status::success) return result(status, function);
  *capture_status = state.invalidated ? cudaStreamCaptureStatusInvalidated
                    : state.capturing ? cudaStreamCaptureStatusActive
                                      : cudaStreamCaptureStatusNone;
  if (!state.capturing) return cudaSuccess;
  if (id != nullptr) *id = state.capture_id;
  if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(state.graph);
  handed_out.clear();
  for (GraphNode* const leaf : state.leaves)
    handed_out.push_back(reinterpret_cast<cudaGraphNode_t>(leaf));
  if (dependencies != nullptr) *dependencies = handed_out.data();
  if (count != nullptr) *count = handed_out.size();
  return cudaSuccess;
}

cudaError_t update_dependencies(cudaStream_t stream, const cudaGraphNode_t* nodes,
                                std::size_t count, unsigned flags,
                                const char* function = __builtin_FUNCTION()) {
  if (flags > cudaStreamSetCaptureDependencies || (nodes == nullptr && count != 0))
    return result(cudaErrorInvalidValue, function);
  return result(set_capture_dependencies(stream, nodes_of(nodes, count),
                                         flags == cudaStreamSetCaptureDependencies),
                function);
}

cudaError_t add(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                std::size_t count, Operation operation,
                const char* function = __builtin_FUNCTION()) {
  if (dependencies == nullptr && count != 0) return result(cudaErrorInvalidValue, function);
  return result(add_node(graph_of(graph), nodes_of(dependencies, count), std::move(operation),
                         reinterpret_cast<GraphNode**>(node)),
                function);
}

Operation host_operation(const cudaHostNodeParams& parameters) {
  return {NodeKind::host,
          nullptr,
          [function = parameters.fn, data = parameters.userData] { function(data); },
          {}};
}

/// Returns false for an unknown kernel.
bool kernel_operation(const cudaKernelNodeParams& parameters, Operation& operation) {
  Kernel* const kernel = kernel_of(parameters.func);
  if (kernel == nullptr) return false;
  operation = launch_operation(
      *kernel, {{parameters.gridDim.x, parameters.gridDim.y, parameters.gridDim.z},
                {parameters.blockDim.x, parameters.blockDim.y, parameters.blockDim.z},
                parameters.sharedMemBytes,
                false,
                {0, 0, 0},
                parameters.kernelParams});
  return true;
}

Status fill_operation(const cudaMemsetParams& parameters, Operation& operation) {
  return make_fill({parameters.dst, parameters.pitch, parameters.value, parameters.elementSize,
                    parameters.width, parameters.height},
                   operation);
}

/// A user object, which lives as long as the graphs that use it.
struct UserObject {
  void* pointer;
  cudaHostFn_t destroy;
  std::atomic<unsigned> references;
};

void drop_references(UserObject* object, unsigned count) {
  if (object->references.fetch_sub(count) != count) return;
  object->destroy(object->pointer);
  delete object;
}

#if CUDART_VERSION >= 12040
cudaError_t add_any(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                    std::size_t count, cudaGraphNodeParams* parameters,
                    const char* function = __builtin_FUNCTION()) {
  if (node == nullptr || parameters == nullptr) return result(cudaErrorInvalidValue, function);
  Operation operation;
  switch (parameters->type) {
    case cudaGraphNodeTypeEmpty:
      break;
    case cudaGraphNodeTypeKernel: {
      cudaKernelNodeParams kernel{};
      kernel.func = parameters->kernel.func;
      kernel.gridDim = parameters->kernel.gridDim;
      kernel.blockDim = parameters->kernel.blockDim;
      kernel.sharedMemBytes = parameters->kernel.sharedMemBytes;
      if (!kernel_operation(kernel, operation))
        return result(cudaErrorInvalidDeviceFunction, function);
      break;
    }
    case cudaGraphNodeTypeHost: {
      cudaHostNodeParams host{};
      host.fn = parameters->host.fn;
      host.userData = parameters->host.userData;
      if (host.fn == nullptr) return result(cudaErrorInvalidValue, function);
      operation = host_operation(host);
      break;
    }
    case cudaGraphNodeTypeConditional: {
      // The body is not run, because the condition is an unknown value on the device.
      operation = {NodeKind::conditional, "host_read", {}, [](Call& call) {
                     call.json().key("conditional");
                     call.json().string("the body is not replayed: its condition is not known");
                   }};
      const cudaError_t error =
          add(node, graph, dependencies, count, std::move(operation), function);
      if (error != cudaSuccess) return error;
      static thread_local std::vector<cudaGraph_t> bodies;
      bodies.assign(parameters->conditional.size, nullptr);
      for (cudaGraph_t& body : bodies) {
        const Status status = add_body(node_of(*node), reinterpret_cast<Graph**>(&body));
        if (status != Status::success) return result(status, function);
      }
      parameters->conditional.phGraph_out = bodies.data();
      return cudaSuccess;
    }
    default:
      unimplemented("cudaGraphAddNode");
      return result(cudaErrorNotSupported, function);
  }
  return add(node, graph, dependencies, count, std::move(operation), function);
}
#endif

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

// Capture.

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed)
    return result(cudaErrorInvalidValue);
  return result(begin_capture(stream, static_cast<CaptureMode>(mode), nullptr, {}));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t* dependencies,
                                          const cudaGraphEdgeData*, std::size_t count,
                                          cudaStreamCaptureMode mode) {
  if (mode < cudaStreamCaptureModeGlobal || mode > cudaStreamCaptureModeRelaxed ||
      graph == nullptr || (dependencies == nullptr && count != 0))
    return result(cudaErrorInvalidValue);
  return result(begin_capture(stream, static_cast<CaptureMode>(mode), graph_of(graph),
                              nodes_of(dependencies, count)));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return result(end_capture(stream, reinterpret_cast<Graph**>(graph)));
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* answer) {
  return capture_info(stream, answer, nullptr, nullptr, nullptr, nullptr);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  if (mode == nullptr || *mode < cudaStreamCaptureModeGlobal ||
      *mode > cudaStreamCaptureModeRelaxed)
    return result(cudaErrorInvalidValue);
  *mode =
      static_cast<cudaStreamCaptureMode>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, std::size_t* count) {
  // No edge has data.
  if (edges != nullptr) *edges = nullptr;
  return capture_info(stream, status, id, graph, dependencies, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                const cudaGraphEdgeData*, std::size_t count,
                                                unsigned int flags) {
  return update_dependencies(stream, nodes, count, flags);
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                        unsigned long long* id, cudaGraph_t* graph,
                                        const cudaGraphNode_t** dependencies, std::size_t* count) {
  return capture_info(stream, status, id, graph, dependencies, count);
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t* nodes,
                                                std::size_t count, unsigned int flags) {
  return update_dependencies(stream, nodes, count, flags);
}
#endif

// Graphs and their nodes.

cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned int flags) {
  if (graph == nullptr || flags != 0) return result(cudaErrorInvalidValue);
  *graph = reinterpret_cast<cudaGraph_t>(create_graph());
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return result(destroy_graph(graph_of(graph)));
}

cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  return result(clone_graph(graph_of(original), reinterpret_cast<Graph**>(clone)));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  std::vector<GraphNode*> all;
  if (count == nullptr) return result(cudaErrorInvalidValue);
  const Status status = graph_nodes(graph_of(graph), all);
  if (status == Status::success) give_nodes(all, nodes, count);
  return result(status);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         cudaGraphEdgeData* edges, std::size_t* count) {
#else
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t* dependencies,
                                         std::size_t* count) {
  constexpr cudaGraphEdgeData* edges = nullptr;
#endif
  std::vector<GraphNode*> all;
  if (count == nullptr) return result(cudaErrorInvalidValue);
  const Status status = node_dependencies(node_of(node), all);
  if (status != Status::success) return result(status);
  give_nodes(all, dependencies, count);
  for (std::size_t i = 0; edges != nullptr && i < *count; ++i) edges[i] = {};
  return cudaSuccess;
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  std::vector<GraphNode*> unused;
  if (type == nullptr) return result(cudaErrorInvalidValue);
  const Status status = node_dependencies(node_of(node), unused);
  if (status == Status::success)
    *type = static_cast<cudaGraphNodeType>(node_of(node)->operation.node);
  return result(status);
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                  const cudaGraphNode_t* dependencies, std::size_t count) {
  return add(node, graph, dependencies, count, {});
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                 const cudaGraphNode_t* dependencies, std::size_t count,
                                 const cudaHostNodeParams* parameters) {
  if (parameters == nullptr || parameters->fn == nullptr) return result(cudaErrorInvalidValue);
  return add(node, graph, dependencies, count, host_operation(*parameters));
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, std::size_t count,
                                   const cudaKernelNodeParams* parameters) {
  if (parameters == nullptr) return result(cudaErrorInvalidValue);
  Operation operation;
  if (!kernel_operation(*parameters, operation)) return result(cudaErrorInvalidDeviceFunction);
  return add(node, graph, dependencies, count, std::move(operation));
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                   const cudaGraphNode_t* dependencies, std::size_t count,
                                   const cudaMemsetParams* parameters) {
  if (parameters == nullptr) return result(cudaErrorInvalidValue);
  Operation operation;
  const Status status = fill_operation(*parameters, operation);
  if (status != Status::success) return result(status);
  return add(node, graph, dependencies, count, std::move(operation));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* node, cudaGraph_t graph,
                                     const cudaGraphNode_t* dependencies, std::size_t count,
                                     void* to, const void* from, std::size_t bytes,
                                     cudaMemcpyKind kind) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return result(cudaErrorInvalidMemcpyDirection);
  Operation operation;
  const Status status =
      make_copy({to, bytes, from, bytes, bytes, 1}, static_cast<Direction>(kind), operation);
  if (status != Status::success) return result(status);
  return add(node, graph, dependencies, count, std::move(operation));
}

#if CUDART_VERSION >= 13000
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, const cudaGraphEdgeData*,
                             std::size_t count, cudaGraphNodeParams* parameters) {
  return add_any(node, graph, dependencies, count, parameters);
}
#else
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t graph,
                             const cudaGraphNode_t* dependencies, std::size_t count,
                             cudaGraphNodeParams* parameters) {
  return add_any(node, graph, dependencies, count, parameters);
}
#endif

cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* handle, cudaGraph_t graph,
                                             unsigned int, unsigned int) {
  static std::atomic<unsigned long long> last{0};
  std::vector<GraphNode*> unused;
  if (handle == nullptr) return result(cudaErrorInvalidValue);
  const Status status = graph_nodes(graph_of(graph), unused);
  if (status == Status::success) *handle = ++last;
  return result(status);
}

cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer, cudaHostFn_t destroy,
                                 unsigned int references, unsigned int flags) {
  if (object == nullptr || destroy == nullptr || references == 0 ||
      flags != cudaUserObjectNoDestructorSync)
    return result(cudaErrorInvalidValue);
  *object = reinterpret_cast<cudaUserObject_t>(new UserObject{pointer, destroy, {references}});
  return cudaSuccess;
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count) {
  if (object == nullptr || count == 0) return result(cudaErrorInvalidValue);
  reinterpret_cast<UserObject*>(object)->references += count;
  return cudaSuccess;
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count) {
  if (object == nullptr || count == 0) return result(cudaErrorInvalidValue);
  drop_references(reinterpret_cast<UserObject*>(object), count);
  return cudaSuccess;
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t handle,
                                      unsigned int count, unsigned int flags) {
  auto* const object = reinterpret_cast<UserObject*>(handle);
  if (object == nullptr || count == 0 || flags > cudaGraphUserObjectMove)
    return result(cudaErrorInvalidValue);
  std::vector<GraphNode*> unused;
  const Status status = graph_nodes(graph_of(graph), unused);
  if (status != Status::success) return result(status);
  if (flags != cudaGraphUserObjectMove) object->references += count;
  return result(keep_with_graph(graph_of(graph), std::shared_ptr<void>(object, [count](void* kept) {
                                  drop_references(static_cast<UserObject*>(kept), count);
                                })));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char* path, unsigned int) {
  std::vector<GraphNode*> nodes;
  if (path == nullptr) return result(cudaErrorInvalidValue);
  const Status status = graph_nodes(graph_of(graph), nodes);
  if (status != Status::success) return result(status);
  FILE* const file = std::fopen(path, "we");
  if (file == nullptr) return result(cudaErrorOperatingSystem);
  std::fputs("digraph dot {\n", file);
  for (const GraphNode* const node : nodes) {
    std::fprintf(file, "\"%p\" [label=\"node type %d\"];\n", static_cast<const void*>(node),
                 static_cast<int>(node->operation.node));
    for (const GraphNode* const before : node->dependencies)
      std::fprintf(file, "\"%p\" -> \"%p\";\n", static_cast<const void*>(before),
                   static_cast<const void*>(node));
  }
  std::fputs("}\n", file);
  return std::fclose(file) == 0 ? cudaSuccess : result(cudaErrorOperatingSystem);
}

// Replay.

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long) {
  return result(instantiate(graph_of(graph), reinterpret_cast<GraphExec**>(exec)));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                cudaGraphExecUpdateResultInfo* info) {
  if (info == nullptr) return result(cudaErrorInvalidValue);
  bool same_shape = false;
  const Status status = update_exec(exec_of(exec), graph_of(graph), same_shape);
  if (status != Status::success) return result(status);
  *info = {};
  info->result = same_shape ? cudaGraphExecUpdateSuccess : cudaGraphExecUpdateErrorTopologyChanged;
  return same_shape ? cudaSuccess : result(cudaErrorGraphExecUpdateFailure);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return result(destroy_exec(exec_of(exec)));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  const Status status = use_devices();
  if (status != Status::success) return result(status);
  return result(launch_graph(exec_of(exec), stream, "cudaGraphLaunch"));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  StreamState state{};
  if (exec == nullptr) return result(cudaErrorInvalidValue);
  return result(stream_state(stream, state));
}

}  // extern "C"
