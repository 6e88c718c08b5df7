// The CUDA runtime: streams and events. Graphs are in cudart_graphs.cpp.

#include <cuda_runtime_api.h>

#include "gpu/emulated/libraries/cuda/cudart.h"
#include "gpu/emulated/streams/device_streams.h"

using namespace optrace::emulated;

extern "C" {

// Streams.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(create_stream(reinterpret_cast<void**>(stream), flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeastPriority);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, kLeastPriority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return result(destroy_stream(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Status status = use_runtime();
  if (status == Status::success) status = synchronize_stream(stream);
  if (status == Status::success) record_synchronization("cudaStreamSynchronize");
  return result(status);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Status status = use_runtime();
  return result(status == Status::success ? synchronize_stream(stream) : status);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (flags > cudaEventWaitExternal) return result(cudaErrorInvalidValue);
  return result(wait_event(stream, event, flags == cudaEventWaitExternal));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  if (callback == nullptr || flags != 0) return result(cudaErrorInvalidValue);
  bool captures = false;
  const Status status = capturing(stream, captures);
  if (status != Status::success) return result(status);
  if (captures) return result(cudaErrorStreamCaptureUnsupported);
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return result(cudaErrorInvalidValue);
  return result(submit(stream, "cudaLaunchHostFunc",
                       {NodeKind::host, nullptr, [function, data] { function(data); }, {}}));
}

// Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(create_event(reinterpret_cast<void**>(event), flags));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return result(destroy_event(event));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (flags > cudaEventRecordExternal) return result(cudaErrorInvalidValue);
  return result(record_event(event, stream, flags == cudaEventRecordExternal));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return result(query_event(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Status status = query_event(event);
  if (status == Status::success) record_synchronization("cudaEventSynchronize");
  return result(status);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return result(cudaErrorInvalidValue);
  return result(elapsed_time(start, end, *milliseconds));
}

}  // extern "C"
