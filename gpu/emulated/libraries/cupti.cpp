// CUPTI on emulated devices. Subscribers are called for the functions that give a device work, and
// activity buffers receive that work: kernels (which aren't executed), copies and fills, and the
// calls that requested them. The durations are unknown, so each is reported as one nanosecond.
// Hardware events and metrics don't exist; they fail like all functions that are not implemented.
//
// A real CUPTI also delivers buffers from its own thread. This one delivers them from the thread
// that fills a buffer or flushes.

#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include <cupti.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/libraries/cupti_state.h"
#include "gpu/emulated/streams/device_observer.h"

namespace optrace::emulated {

std::mutex cupti_mutex;

namespace {

const HeldAcrossFork<cupti_mutex> cupti_held;

const Function* function_of(const char* name) {
  for (const Function& function : kFunctions)
    if (std::strcmp(function.name, name) == 0) return &function;
  return nullptr;
}

void on_call(const char* name, bool begins, std::uint32_t number) {
  const Function* const function = function_of(name);
  if (function == nullptr) return;
  if (begins) add_call(*function, number);
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    const CuptiState& all = state();
    if (all.subscriber == nullptr || !all.enabled[static_cast<std::size_t>(function - kFunctions)])
      return;
    callback = all.callback;
    user = all.user;
  }
  static thread_local std::uint64_t between = 0;
  const int device = current_device();
  CUpti_CallbackData data{};
  data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = function->name;
  data.context = static_cast<CUcontext>(context_of(device));
  data.contextUid = context_id(device);
  data.correlationData = &between;
  data.correlationId = number;
  callback(user, function->domain, function->id, &data);
}

constexpr Observer kObserver{on_call, on_work};

void unsubscribe() {
  CuptiState& all = state();
  delete std::exchange(all.subscriber, nullptr);
  all.callback = nullptr;
  all.enabled.reset();
}

}  // namespace

CuptiState& state() {
  // Never destroyed, because CUDA may be called until the process ends.
  static auto* const all = new CuptiState;
  return *all;
}

void update_observer() {
  const CuptiState& all = state();
  observe_with(all.subscriber != nullptr || all.kinds.any() ? &kObserver : nullptr);
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                           void* userdata) {
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  CuptiState& all = state();
  // As on a real device, only one subscriber is allowed.
  if (all.subscriber != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  all.subscriber = new CUpti_Subscriber_st;
  all.callback = callback;
  all.user = userdata;
  *subscriber = all.subscriber;
  update_observer();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != state().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  unsubscribe();
  update_observer();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiFinalize() {
  flush();
  const std::lock_guard lock(cupti_mutex);
  CuptiState& all = state();
  unsubscribe();
  all.kinds.reset();
  all.request = nullptr;
  all.complete = nullptr;
  update_observer();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != state().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    if (kFunctions[i].domain == domain && kFunctions[i].id == cbid)
      state().enabled[i] = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                              CUpti_CallbackDomain domain) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != state().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    if (kFunctions[i].domain == domain) state().enabled[i] = enable != 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = nullptr;
  for (const Function& function : kFunctions) {
    if (function.domain != domain || function.id != cbid) continue;
    *name = function.traced_name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiGetDeviceId(CUcontext, uint32_t* deviceId) {
  if (deviceId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  // The context, which has no device number, is that of the thread's current device.
  *deviceId = static_cast<uint32_t>(current_device());
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetContextId(CUcontext context, uint32_t* contextId) {
  if (contextId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (int device = 0; device < device_count(); ++device) {
    if (static_cast<void*>(context) != context_of(device)) continue;
    *contextId = context_id(device);
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_CONTEXT;
}

CUptiResult cuptiGetStreamIdEx(CUcontext, CUstream stream, uint8_t, uint32_t* streamId) {
  if (streamId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (stream != nullptr) {
    unimplemented("cuptiGetStreamIdEx of another stream than the default one");
    return CUPTI_ERROR_NOT_SUPPORTED;
  }
  *streamId = kDefaultStream;
  return CUPTI_SUCCESS;
}

}  // extern "C"
