// The CUDA driver: streams and events, implemented as in the runtime.

#include <cuda.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/libraries/cuda/cuda_result.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

using namespace optrace::emulated;

extern "C" {

CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return outcome(result(create_stream(reinterpret_cast<void**>(stream), flags, kLeastPriority)));
}

CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags, int priority) {
  return outcome(result(create_stream(reinterpret_cast<void**>(stream), flags, priority)));
}

CUresult cuStreamDestroy(CUstream stream) {
  return outcome(result(destroy_stream(stream)));
}

CUresult cuStreamSynchronize(CUstream stream) {
  const Status status = synchronize_stream(stream);
  if (status == Status::success && recording()) {
    Call call("cuStreamSynchronize", "synchronize");
    call.record();
  }
  return outcome(result(status));
}

CUresult cuStreamQuery(CUstream stream) {
  return outcome(result(synchronize_stream(stream)));
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  if (mode == nullptr || *mode < CU_STREAM_CAPTURE_MODE_GLOBAL ||
      *mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  *mode = static_cast<CUstreamCaptureMode>(exchange_capture_mode(static_cast<CaptureMode>(*mode)));
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream stream, CUcontext* context) {
  StreamState state{};
  if (context == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  const Status status = stream_state(stream, state);
  if (status == Status::success) *context = reinterpret_cast<CUcontext>(context_of(state.device));
  return outcome(result(status));
}

CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* answer) {
  StreamState state{};
  if (answer == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  const Status status = stream_state(stream, state);
  *answer = state.invalidated ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
            : state.capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE
                              : CU_STREAM_CAPTURE_STATUS_NONE;
  return outcome(result(status));
}

CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned int flags) {
  return outcome(result(wait_event(stream, event, flags == CU_EVENT_WAIT_EXTERNAL)));
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int) {
  return outcome(
      result(fill({pointer_of(address), 4, value, 4, 1, 1}, stream, "cuStreamWriteValue32_v2")));
}

// The name without a version suffix, which PyTorch looks up.
#undef cuStreamWriteValue32
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return cuStreamWriteValue32_v2(stream, address, value, flags);
}

CUresult cuEventCreate(CUevent* event, unsigned int flags) {
  return outcome(result(create_event(reinterpret_cast<void**>(event), flags)));
}

CUresult cuEventDestroy(CUevent event) {
  return outcome(result(destroy_event(event)));
}

CUresult cuEventRecord(CUevent event, CUstream stream) {
  return outcome(result(record_event(event, stream, false)));
}

CUresult cuEventQuery(CUevent event) {
  return outcome(result(query_event(event)));
}
CUresult cuEventSynchronize(CUevent event) {
  return outcome(result(query_event(event)));
}

CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  if (milliseconds == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  return outcome(result(elapsed_time(start, end, *milliseconds)));
}

}  // extern "C"
