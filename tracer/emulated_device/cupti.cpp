// CUPTI on emulated devices: whoever subscribes is never called and sees no activity, because no
// kernel runs; torch.profiler then shows what the CPU does. Hardware events and metrics, of which
// there are none either, fail as everything does that isn't here.

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <cupti.h>

#include "tracer/emulated_device/call_values.h"
#include "tracer/emulated_device/device.h"

struct CUpti_Subscriber_st {};

namespace {

using optrace::emulated::Call;
using optrace::emulated::put;

struct Callbacks {
  std::mutex mutex;
  CUpti_Subscriber_st* subscriber = nullptr;
  bool buffers = false;  ///< Somebody takes activity records.
};

Callbacks& callbacks() {
  static auto* const callbacks = new Callbacks;
  return *callbacks;
}

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> correlations;

constexpr int kLastKind = CUPTI_ACTIVITY_KIND_COUNT;

CUptiResult check_kind(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < kLastKind ? CUPTI_SUCCESS
                                                                : CUPTI_ERROR_INVALID_KIND;
}

}  // namespace

extern "C" {

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetVersion(uint32_t* version) {
  if (version == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetResultString(CUptiResult result,
                                                                const char** str) {
  if (str == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  switch (result) {
    case CUPTI_SUCCESS:
      *str = "CUPTI_SUCCESS";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_INVALID_PARAMETER:
      *str = "CUPTI_ERROR_INVALID_PARAMETER";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_INVALID_KIND:
      *str = "CUPTI_ERROR_INVALID_KIND";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_MAX_LIMIT_REACHED:
      *str = "CUPTI_ERROR_MAX_LIMIT_REACHED";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED:
      *str = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_NOT_SUPPORTED:
      *str = "CUPTI_ERROR_NOT_SUPPORTED";
      return CUPTI_SUCCESS;
    case CUPTI_ERROR_QUEUE_EMPTY:
      *str = "CUPTI_ERROR_QUEUE_EMPTY";
      return CUPTI_SUCCESS;
    default:
      *str = "an error of CUPTI that no emulated device gives";
      return CUPTI_SUCCESS;
  }
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                                          CUpti_CallbackFunc callback,
                                                          void* /*userdata*/) {
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  Callbacks& known = callbacks();
  const std::lock_guard lock(known.mutex);
  // As on a real device, one subscriber at a time.
  if (known.subscriber != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  known.subscriber = new CUpti_Subscriber_st;
  *subscriber = known.subscriber;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  Callbacks& known = callbacks();
  const std::lock_guard lock(known.mutex);
  if (subscriber == nullptr || subscriber != known.subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  delete known.subscriber;
  known.subscriber = nullptr;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiFinalize() {
  Callbacks& known = callbacks();
  const std::lock_guard lock(known.mutex);
  delete known.subscriber;
  known.subscriber = nullptr;
  known.buffers = false;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t /*enable*/,
                                                               CUpti_SubscriberHandle subscriber,
                                                               CUpti_CallbackDomain /*domain*/,
                                                               CUpti_CallbackId /*cbid*/) {
  return subscriber == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t /*enable*/,
                                                             CUpti_SubscriberHandle subscriber,
                                                             CUpti_CallbackDomain /*domain*/) {
  return subscriber == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                               CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  Callbacks& known = callbacks();
  const std::lock_guard lock(known.mutex);
  known.buffers = true;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  return funcTimestamp == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = check_kind(kind); result != CUPTI_SUCCESS) return result;
  Call call("cuptiActivityEnable", "library");
  put(call.json(), "activity", static_cast<int>(kind));
  put(call.json(), "seen", "nothing: no kernel runs");
  call.record();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  return check_kind(kind);
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute /*a*/,
                                                                     size_t* valueSize,
                                                                     void* value) {
  // Of buffers, which nothing fills.
  return valueSize == nullptr || value == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t /*flag*/) {
  return CUPTI_SUCCESS;  // Nothing was asked for, so nothing is handed over.
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord(
    uint8_t* /*buffer*/, size_t /*validBufferSizeBytes*/, CUpti_Activity** record) {
  if (record == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  return CUPTI_ERROR_MAX_LIMIT_REACHED;  // "No more records in the buffer."
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext /*context*/,
                                                                             uint32_t /*streamId*/,
                                                                             size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *dropped = 0;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id) {
  correlations[kind].push_back(id);
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t* lastId) {
  std::vector<std::uint64_t>& ids = correlations[kind];
  if (ids.empty()) {
    if (lastId != nullptr) *lastId = 0;
    return CUPTI_ERROR_QUEUE_EMPTY;
  }
  if (lastId != nullptr) *lastId = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetDeviceId(CUcontext /*context*/,
                                                            uint32_t* deviceId) {
  if (deviceId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  // A context without a device's number, the current one, is the thread's.
  *deviceId = static_cast<uint32_t>(optrace::emulated::current_device());
  return CUPTI_SUCCESS;
}

#if CUDA_VERSION >= 13000
OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t /*enable*/) {
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityEnableDriverApi(CUpti_CallbackId /*cbid*/,
                                                                        uint8_t /*enable*/) {
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityEnableRuntimeApi(CUpti_CallbackId /*cbid*/,
                                                                         uint8_t /*enable*/) {
  return CUPTI_SUCCESS;
}
#endif

}  // extern "C"
