#pragma once

// What the files of the CUDA runtime share. The last error is stored per thread.

#include <cuda_runtime_api.h>

#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {

/// Stores an error as the thread's last one, records it as a failure of the calling function or of
/// `function`, and returns it.
cudaError_t result(cudaError_t error, const char* function = __builtin_FUNCTION());
inline cudaError_t result(Status status, const char* function = __builtin_FUNCTION()) {
  return result(static_cast<cudaError_t>(status), function);
}

/// Returns an error if the process may not use the devices, or if the driver is older than the
/// runtime's major version.
Status use_runtime();

/// Checks before a call that a capture of this thread may forbid.
Status begin_unsafe();

/// Records that the host waited for the device.
void record_synchronization(const char* function);

/// Sets one of the values that stream_state() returns. Generated functions call this.
template <typename Value, typename Given>
cudaError_t stream_value(cudaStream_t stream, Value StreamState::* member, Given* value,
                         const char* function = __builtin_FUNCTION()) {
  if (value == nullptr) return result(cudaErrorInvalidValue, function);
  StreamState state{};
  const Status status = stream_state(stream, state);
  *value = state.*member;
  return result(status, function);
}

/// Copies as many elements of `from` as `count` has room for. Sets `count` to the number available
/// (if `to` is null) or copied.
template <typename Node>
void give_nodes(const std::vector<GraphNode*>& from, Node* to, std::size_t* count) {
  if (to == nullptr) {
    *count = from.size();
    return;
  }
  const std::size_t given = from.size() < *count ? from.size() : *count;
  for (std::size_t i = 0; i < *count; ++i)
    to[i] = i < given ? reinterpret_cast<Node>(from[i]) : nullptr;
  *count = given;
}

inline std::vector<GraphNode*> nodes_of(const cudaGraphNode_t* nodes, std::size_t count) {
  std::vector<GraphNode*> result;
  for (std::size_t i = 0; nodes != nullptr && i < count; ++i)
    result.push_back(reinterpret_cast<GraphNode*>(nodes[i]));
  return result;
}

}  // namespace optrace::emulated
