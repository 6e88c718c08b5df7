// CUPTI on emulated devices. Subscribers are called for the functions that give a device work, and
// activity buffers receive that work: kernels (which aren't executed), copies and fills, and the
// calls that requested them. The durations are unknown, so each is reported as one nanosecond.
// Hardware events and metrics don't exist; they fail like all functions that are not implemented.
//
// A real CUPTI also delivers buffers from its own thread. This one delivers them from the thread
// that fills a buffer or flushes.

#include <bitset>
#include <chrono>
#include <cstring>
#include <iterator>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <cupti.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/streams/device_observer.h"

struct CUpti_Subscriber_st {};

namespace {

using optrace::emulated::Call;
using optrace::emulated::HeldAcrossFork;
using optrace::emulated::Observer;
using optrace::emulated::put;
using optrace::emulated::Work;

// Records with space for the fields that the newest headers of this CUDA version add at the end,
// which are zeros (cupti_activity.h).
constexpr std::size_t kRoom = 64;
template <typename Record>
struct alignas(8) Roomy {
  Record record;
  char more[kRoom];
};

struct Function {
  const char* name;  ///< Name used by the runtime and the driver.
  CUpti_CallbackDomain domain;
  CUpti_CallbackId id;
  const char* traced_name;  ///< Name used by CUPTI.
};

#define RUNTIME(name, version)                                                       \
  Function {                                                                         \
    #name, CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_RUNTIME_TRACE_CBID_##name##_##version, \
        #name "_" #version                                                           \
  }
#define DRIVER(name)                                                         \
  Function {                                                                 \
    #name, CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_DRIVER_TRACE_CBID_##name, #name \
  }
constexpr Function kFunctions[] = {
    RUNTIME(cudaLaunchKernel, v7000),
    RUNTIME(cudaLaunchCooperativeKernel, v9000),
    RUNTIME(cudaLaunchKernelExC, v11060),
    RUNTIME(cudaGraphLaunch, v10000),
    RUNTIME(cudaMemcpy, v3020),
    RUNTIME(cudaMemcpyAsync, v3020),
    RUNTIME(cudaMemcpy2D, v3020),
    RUNTIME(cudaMemcpy2DAsync, v3020),
    RUNTIME(cudaMemcpyPeer, v4000),
    RUNTIME(cudaMemcpyPeerAsync, v4000),
    RUNTIME(cudaMemcpyToSymbol, v3020),
    RUNTIME(cudaMemcpyToSymbolAsync, v3020),
    RUNTIME(cudaMemcpyFromSymbol, v3020),
    RUNTIME(cudaMemset, v3020),
    RUNTIME(cudaMemsetAsync, v3020),
    RUNTIME(cudaMemset2D, v3020),
    RUNTIME(cudaMemset2DAsync, v3020),
    DRIVER(cuLaunchKernel),
    DRIVER(cuLaunchCooperativeKernel),
    DRIVER(cuLaunchKernelEx),
    DRIVER(cuGraphLaunch),
    DRIVER(cuMemcpyHtoD_v2),
    DRIVER(cuMemcpyDtoH_v2),
    DRIVER(cuMemcpyDtoD_v2),
    DRIVER(cuMemcpyHtoDAsync_v2),
    DRIVER(cuMemcpyDtoHAsync_v2),
    DRIVER(cuMemcpyDtoDAsync_v2),
    DRIVER(cuMemsetD8_v2),
    DRIVER(cuMemsetD8Async),
    DRIVER(cuMemsetD32_v2),
    DRIVER(cuMemsetD32Async),
};
#undef RUNTIME
#undef DRIVER

const Function* function_of(const char* name) {
  for (const Function& function : kFunctions)
    if (std::strcmp(function.name, name) == 0) return &function;
  return nullptr;
}

constexpr int kLastKind = CUPTI_ACTIVITY_KIND_COUNT;

struct Buffer {
  std::uint8_t* bytes;
  std::size_t size;
  std::size_t used;
};

struct Everything {
  CUpti_Subscriber_st* subscriber = nullptr;
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  std::bitset<std::size(kFunctions)> enabled;  // Functions with callbacks enabled.
  std::bitset<kLastKind> kinds;                // Activity kinds enabled.
  CUpti_BuffersCallbackRequestFunc request = nullptr;
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  Buffer filling{};
  std::size_t dropped = 0;
};

std::mutex cupti_mutex;  // Not locked while a callback is called.
const HeldAcrossFork<cupti_mutex> cupti_held;

Everything& everything() {
  // Never destroyed, because CUDA may be called until the process ends.
  static auto* const all = new Everything;
  return *all;
}

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> correlations;

CUptiResult check_kind(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < kLastKind ? CUPTI_SUCCESS
                                                                : CUPTI_ERROR_INVALID_KIND;
}

// The number of a real device's default stream; other streams have higher numbers.
constexpr std::uint32_t kDefaultStream = 7;

std::uint32_t stream_id(std::uint64_t number) {
  constexpr std::uint32_t kFirstMade = 13;
  return number == 0 ? kDefaultStream : kFirstMade - 1 + static_cast<std::uint32_t>(number);
}

std::uint32_t context_id(int device) {
  return static_cast<std::uint32_t>(device) + 1;
}

std::uint64_t now() {
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    timestamp = everything().timestamp;
  }
  if (timestamp != nullptr) return timestamp();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

bool wanted(CUpti_ActivityKind kind) {
  const std::lock_guard lock(cupti_mutex);
  return everything().kinds[static_cast<std::size_t>(kind)];
}

// Returns a permanent copy of a mangled name, because readers keep the pointer.
const char* kept_name(const std::string& name) {
  static auto* const names = new std::set<std::string>;
  const std::lock_guard lock(cupti_mutex);
  return names->insert(name).first->c_str();
}

void hand_over(const Buffer& buffer, CUpti_BuffersCallbackCompleteFunc complete) {
  if (buffer.bytes != nullptr && complete != nullptr)
    complete(nullptr, 0, buffer.bytes, buffer.size, buffer.used);
}

template <typename Record>
void add(const Record& record) {
  Roomy<Record> added{};
  added.record = record;
  while (true) {
    Buffer full{};
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    {
      const std::lock_guard lock(cupti_mutex);
      Everything& all = everything();
      if (all.request == nullptr) return;
      Buffer& filling = all.filling;
      if (filling.bytes != nullptr && filling.size - filling.used >= sizeof added) {
        std::memcpy(filling.bytes + filling.used, &added, sizeof added);
        filling.used += sizeof added;
        return;
      }
      full = std::exchange(filling, {});
      request = all.request;
      complete = all.complete;
    }
    hand_over(full, complete);
    Buffer fresh{};
    std::size_t most = 0;
    request(&fresh.bytes, &fresh.size, &most);
    const bool aligned = reinterpret_cast<std::uintptr_t>(fresh.bytes) % 8 == 0;
    Buffer unneeded{};
    {
      const std::lock_guard lock(cupti_mutex);
      Everything& all = everything();
      if (fresh.bytes == nullptr || !aligned || fresh.size < sizeof added) {
        ++all.dropped;
        unneeded = fresh;
      } else if (all.filling.bytes != nullptr) {
        unneeded = fresh;  // Another thread has set one in the meantime.
      } else {
        all.filling = fresh;
      }
    }
    hand_over(unneeded, complete);
    if (fresh.bytes == nullptr || !aligned || fresh.size < sizeof added) return;
  }
}

void flush() {
  Buffer filled{};
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    filled = std::exchange(everything().filling, {});
    complete = everything().complete;
  }
  hand_over(filled, complete);
}

void add_call(const Function& function, std::uint32_t number) {
  const bool runtime = function.domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  const CUpti_ActivityKind kind =
      runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (wanted(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    for (const auto& [external, ids] : correlations) {
      if (ids.empty()) continue;
      CUpti_ActivityExternalCorrelation record{};
      record.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
      record.externalKind = external;
      record.externalId = ids.back();
      record.correlationId = number;
      add(record);
    }
  }
  if (!wanted(kind)) return;
  CUpti_ActivityAPI record{};
  record.kind = kind;
  record.cbid = function.id;
  record.start = now();
  record.end = record.start + 1;
  record.processId = static_cast<std::uint32_t>(getpid());
  record.threadId = static_cast<std::uint32_t>(syscall(SYS_gettid));
  record.correlationId = number;
  add(record);
}

void on_call(const char* name, bool begins, std::uint32_t number) {
  const Function* const function = function_of(name);
  if (function == nullptr) return;
  if (begins) add_call(*function, number);
  CUpti_CallbackFunc callback = nullptr;
  void* user = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    const Everything& all = everything();
    if (all.subscriber == nullptr || !all.enabled[static_cast<std::size_t>(function - kFunctions)])
      return;
    callback = all.callback;
    user = all.user;
  }
  static thread_local std::uint64_t between = 0;
  const int device = optrace::emulated::current_device();
  CUpti_CallbackData data{};
  data.callbackSite = begins ? CUPTI_API_ENTER : CUPTI_API_EXIT;
  data.functionName = function->name;
  data.context = static_cast<CUcontext>(optrace::emulated::context_of(device));
  data.contextUid = context_id(device);
  data.correlationData = &between;
  data.correlationId = number;
  callback(user, function->domain, function->id, &data);
}

// Fills the fields common to all activities.
template <typename Record>
void place(Record& record, CUpti_ActivityKind kind, std::uint32_t number, std::uint64_t stream) {
  const int device = optrace::emulated::current_device();
  record.kind = kind;
  record.start = now();
  record.end = record.start + 1;
  record.deviceId = static_cast<std::uint32_t>(device);
  record.contextId = context_id(device);
  record.streamId = stream_id(stream);
  record.correlationId = number;
}

CUpti_ActivityMemcpyKind copy_kind(int direction) {
  constexpr CUpti_ActivityMemcpyKind kKinds[] = {
      CUPTI_ACTIVITY_MEMCPY_KIND_HTOH, CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
      CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CUPTI_ACTIVITY_MEMCPY_KIND_DTOD};
  return direction >= 0 && direction < static_cast<int>(std::size(kKinds))
             ? kKinds[direction]
             : CUPTI_ACTIVITY_MEMCPY_KIND_UNKNOWN;
}

void add_kernel(const Work& work, std::uint32_t number, std::uint64_t stream) {
  const bool concurrent = wanted(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (!concurrent && !wanted(CUPTI_ACTIVITY_KIND_KERNEL)) return;
  CUpti_ActivityKernel9 record{};
  place(record, concurrent ? CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL : CUPTI_ACTIVITY_KIND_KERNEL,
        number, stream);
  record.name = kept_name(work.kernel);
  record.gridX = static_cast<std::int32_t>(work.grid[0]);
  record.gridY = static_cast<std::int32_t>(work.grid[1]);
  record.gridZ = static_cast<std::int32_t>(work.grid[2]);
  record.blockX = static_cast<std::int32_t>(work.block[0]);
  record.blockY = static_cast<std::int32_t>(work.block[1]);
  record.blockZ = static_cast<std::int32_t>(work.block[2]);
  record.clusterX = work.cluster[0];
  record.clusterY = work.cluster[1];
  record.clusterZ = work.cluster[2];
  record.staticSharedMemory = static_cast<std::int32_t>(work.static_shared);
  record.dynamicSharedMemory = static_cast<std::int32_t>(work.dynamic_shared);
  record.registersPerThread = static_cast<std::uint16_t>(work.registers);
  record.localMemoryPerThread = static_cast<std::uint32_t>(work.local);
  add(record);
}

void on_work(const Work& work, std::uint32_t number, std::uint64_t stream) {
  switch (work.kind) {
    case Work::Kind::kernel:
      add_kernel(work, number, stream);
      break;
    case Work::Kind::copy:
      if (wanted(CUPTI_ACTIVITY_KIND_MEMCPY)) {
        CUpti_ActivityMemcpy5 record{};
        place(record, CUPTI_ACTIVITY_KIND_MEMCPY, number, stream);
        record.copyKind = static_cast<std::uint8_t>(copy_kind(work.direction));
        record.bytes = work.bytes;
        add(record);
      }
      break;
    case Work::Kind::fill:
      if (wanted(CUPTI_ACTIVITY_KIND_MEMSET)) {
        CUpti_ActivityMemset4 record{};
        place(record, CUPTI_ACTIVITY_KIND_MEMSET, number, stream);
        record.bytes = work.bytes;
        add(record);
      }
      break;
  }
}

constexpr Observer kObserver{on_call, on_work};

// Sets or removes the observer. Requires cupti_mutex to be locked.
void look_or_not() {
  const Everything& all = everything();
  optrace::emulated::observe_with(all.subscriber != nullptr || all.kinds.any() ? &kObserver
                                                                               : nullptr);
}

void unsubscribe() {
  Everything& all = everything();
  delete std::exchange(all.subscriber, nullptr);
  all.callback = nullptr;
  all.enabled.reset();
}

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(Roomy<CUpti_ActivityKernel9>);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(Roomy<CUpti_ActivityMemcpy5>);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(Roomy<CUpti_ActivityMemset4>);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(Roomy<CUpti_ActivityAPI>);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(Roomy<CUpti_ActivityExternalCorrelation>);
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiSubscribe(CUpti_SubscriberHandle* subscriber,
                                                          CUpti_CallbackFunc callback,
                                                          void* userdata) {
  if (subscriber == nullptr || callback == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  Everything& all = everything();
  // As on a real device, only one subscriber is allowed.
  if (all.subscriber != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  all.subscriber = new CUpti_Subscriber_st;
  all.callback = callback;
  all.user = userdata;
  *subscriber = all.subscriber;
  look_or_not();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != everything().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  unsubscribe();
  look_or_not();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiFinalize() {
  flush();
  const std::lock_guard lock(cupti_mutex);
  Everything& all = everything();
  unsubscribe();
  all.kinds.reset();
  all.request = nullptr;
  all.complete = nullptr;
  look_or_not();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiEnableCallback(uint32_t enable,
                                                               CUpti_SubscriberHandle subscriber,
                                                               CUpti_CallbackDomain domain,
                                                               CUpti_CallbackId cbid) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != everything().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    if (kFunctions[i].domain == domain && kFunctions[i].id == cbid)
      everything().enabled[i] = enable != 0;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiEnableDomain(uint32_t enable,
                                                             CUpti_SubscriberHandle subscriber,
                                                             CUpti_CallbackDomain domain) {
  const std::lock_guard lock(cupti_mutex);
  if (subscriber == nullptr || subscriber != everything().subscriber)
    return CUPTI_ERROR_INVALID_PARAMETER;
  for (std::size_t i = 0; i < std::size(kFunctions); ++i)
    if (kFunctions[i].domain == domain) everything().enabled[i] = enable != 0;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetCallbackName(CUpti_CallbackDomain domain,
                                                                uint32_t cbid, const char** name) {
  if (name == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = nullptr;
  for (const Function& function : kFunctions) {
    if (function.domain != domain || function.id != cbid) continue;
    *name = function.traced_name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                               CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  everything().request = funcBufferRequested;
  everything().complete = funcBufferCompleted;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI
cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  if (funcTimestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  everything().timestamp = funcTimestamp;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = now();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = check_kind(kind); result != CUPTI_SUCCESS) return result;
  Call call("cuptiActivityEnable", "library");
  put(call.json(), "activity", static_cast<int>(kind));
  put(call.json(), "seen", "that it was asked for, not how long it takes");
  call.record();
  const std::lock_guard lock(cupti_mutex);
  everything().kinds[static_cast<std::size_t>(kind)] = true;
  look_or_not();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = check_kind(kind); result != CUPTI_SUCCESS) return result;
  const std::lock_guard lock(cupti_mutex);
  everything().kinds[static_cast<std::size_t>(kind)] = false;
  look_or_not();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivitySetAttribute(CUpti_ActivityAttribute /*a*/,
                                                                     size_t* valueSize,
                                                                     void* value) {
  // The attributes are about device buffers, which don't exist here.
  return valueSize == nullptr || value == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityFlushAll(uint32_t /*flag*/) {
  {
    const std::lock_guard lock(cupti_mutex);
    if (everything().complete == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  }
  flush();
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNextRecord(uint8_t* buffer,
                                                                      size_t validBufferSizeBytes,
                                                                      CUpti_Activity** record) {
  if (record == nullptr || buffer == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  std::uint8_t* next = buffer;
  if (*record != nullptr)
    next = reinterpret_cast<std::uint8_t*>(*record) + size_of((*record)->kind);
  if (next >= buffer + validBufferSizeBytes) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  auto* const found = reinterpret_cast<CUpti_Activity*>(next);
  if (size_of(found->kind) == 0) return CUPTI_ERROR_INVALID_KIND;
  *record = found;
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiActivityGetNumDroppedRecords(CUcontext /*context*/,
                                                                             uint32_t /*streamId*/,
                                                                             size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  *dropped = std::exchange(everything().dropped, 0);
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
  // The context, which has no device number, is that of the thread's current device.
  *deviceId = static_cast<uint32_t>(optrace::emulated::current_device());
  return CUPTI_SUCCESS;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetContextId(CUcontext context,
                                                             uint32_t* contextId) {
  if (contextId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  for (int device = 0; device < optrace::emulated::device_count(); ++device) {
    if (static_cast<void*>(context) != optrace::emulated::context_of(device)) continue;
    *contextId = context_id(device);
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_CONTEXT;
}

OPTRACE_DEVICE_EXPORT CUptiResult CUPTIAPI cuptiGetStreamIdEx(CUcontext /*context*/,
                                                              CUstream stream,
                                                              uint8_t /*perThreadStream*/,
                                                              uint32_t* streamId) {
  if (streamId == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  if (stream != nullptr) {
    optrace::emulated::unimplemented("cuptiGetStreamIdEx of another stream than the default one");
    return CUPTI_ERROR_NOT_SUPPORTED;
  }
  *streamId = kDefaultStream;
  return CUPTI_SUCCESS;
}

}  // extern "C"
