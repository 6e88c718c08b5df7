// CUPTI on emulated devices: activity buffers, which receive the work that calls gave a device.

#include <chrono>
#include <cstddef>
#include <cstdint>
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
#include "gpu/emulated/libraries/cupti_state.h"

namespace optrace::emulated {
namespace {

// Records with space for the fields that the newest headers of this CUDA version add at the end,
// which are zeros (cupti_activity.h).
constexpr std::size_t kPadding = 64;
template <typename Record>
struct alignas(8) PaddedRecord {
  Record record;
  char more[kPadding];
};

thread_local std::map<CUpti_ExternalCorrelationKind, std::vector<std::uint64_t>> correlations;

CUptiResult check_kind(CUpti_ActivityKind kind) {
  return kind > CUPTI_ACTIVITY_KIND_INVALID && kind < kLastKind ? CUPTI_SUCCESS
                                                                : CUPTI_ERROR_INVALID_KIND;
}

std::uint32_t stream_id(std::uint64_t number) {
  constexpr std::uint32_t kFirstMade = 13;
  return number == 0 ? kDefaultStream : kFirstMade - 1 + static_cast<std::uint32_t>(number);
}

std::uint64_t now() {
  CUpti_TimestampCallbackFunc timestamp = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    timestamp = state().timestamp;
  }
  if (timestamp != nullptr) return timestamp();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

bool is_enabled(CUpti_ActivityKind kind) {
  const std::lock_guard lock(cupti_mutex);
  return state().kinds[static_cast<std::size_t>(kind)];
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
  PaddedRecord<Record> added{};
  added.record = record;
  while (true) {
    Buffer full{};
    CUpti_BuffersCallbackRequestFunc request = nullptr;
    CUpti_BuffersCallbackCompleteFunc complete = nullptr;
    {
      const std::lock_guard lock(cupti_mutex);
      CuptiState& all = state();
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
      CuptiState& all = state();
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

// Fills the fields common to all activities.
template <typename Record>
void place(Record& record, CUpti_ActivityKind kind, std::uint32_t number, std::uint64_t stream) {
  const int device = current_device();
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
  const bool concurrent = is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  if (!concurrent && !is_enabled(CUPTI_ACTIVITY_KIND_KERNEL)) return;
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

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(PaddedRecord<CUpti_ActivityKernel9>);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(PaddedRecord<CUpti_ActivityMemcpy5>);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(PaddedRecord<CUpti_ActivityMemset4>);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(PaddedRecord<CUpti_ActivityAPI>);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(PaddedRecord<CUpti_ActivityExternalCorrelation>);
    default:
      return 0;
  }
}

}  // namespace

void flush() {
  Buffer filled{};
  CUpti_BuffersCallbackCompleteFunc complete = nullptr;
  {
    const std::lock_guard lock(cupti_mutex);
    filled = std::exchange(state().filling, {});
    complete = state().complete;
  }
  hand_over(filled, complete);
}

void add_call(const Function& function, std::uint32_t number) {
  const bool runtime = function.domain == CUPTI_CB_DOMAIN_RUNTIME_API;
  const CUpti_ActivityKind kind =
      runtime ? CUPTI_ACTIVITY_KIND_RUNTIME : CUPTI_ACTIVITY_KIND_DRIVER;
  if (is_enabled(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
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
  if (!is_enabled(kind)) return;
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

void on_work(const Work& work, std::uint32_t number, std::uint64_t stream) {
  switch (work.kind) {
    case Work::Kind::kernel:
      add_kernel(work, number, stream);
      break;
    case Work::Kind::copy:
      if (is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) {
        CUpti_ActivityMemcpy5 record{};
        place(record, CUPTI_ACTIVITY_KIND_MEMCPY, number, stream);
        record.copyKind = static_cast<std::uint8_t>(copy_kind(work.direction));
        record.bytes = work.bytes;
        add(record);
      }
      break;
    case Work::Kind::fill:
      if (is_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) {
        CUpti_ActivityMemset4 record{};
        place(record, CUPTI_ACTIVITY_KIND_MEMSET, number, stream);
        record.bytes = work.bytes;
        add(record);
      }
      break;
  }
}

}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc funcBufferRequested,
                                           CUpti_BuffersCallbackCompleteFunc funcBufferCompleted) {
  if (funcBufferRequested == nullptr || funcBufferCompleted == nullptr)
    return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  state().request = funcBufferRequested;
  state().complete = funcBufferCompleted;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc funcTimestamp) {
  if (funcTimestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  state().timestamp = funcTimestamp;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (timestamp == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = now();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = check_kind(kind); result != CUPTI_SUCCESS) return result;
  Call call("cuptiActivityEnable", "library");
  put(call.json(), "activity", static_cast<int>(kind));
  put(call.json(), "seen", "that it was asked for, not how long it takes");
  call.record();
  const std::lock_guard lock(cupti_mutex);
  state().kinds[static_cast<std::size_t>(kind)] = true;
  update_observer();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  if (const CUptiResult result = check_kind(kind); result != CUPTI_SUCCESS) return result;
  const std::lock_guard lock(cupti_mutex);
  state().kinds[static_cast<std::size_t>(kind)] = false;
  update_observer();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute, size_t* valueSize, void* value) {
  // The attributes are about device buffers, which don't exist here.
  return valueSize == nullptr || value == nullptr ? CUPTI_ERROR_INVALID_PARAMETER : CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t) {
  {
    const std::lock_guard lock(cupti_mutex);
    if (state().complete == nullptr) return CUPTI_ERROR_INVALID_OPERATION;
  }
  flush();
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* buffer, size_t validBufferSizeBytes,
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

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  if (dropped == nullptr) return CUPTI_ERROR_INVALID_PARAMETER;
  const std::lock_guard lock(cupti_mutex);
  *dropped = std::exchange(state().dropped, 0);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                   uint64_t id) {
  correlations[kind].push_back(id);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind,
                                                  uint64_t* lastId) {
  std::vector<std::uint64_t>& ids = correlations[kind];
  if (ids.empty()) {
    if (lastId != nullptr) *lastId = 0;
    return CUPTI_ERROR_QUEUE_EMPTY;
  }
  if (lastId != nullptr) *lastId = ids.back();
  ids.pop_back();
  return CUPTI_SUCCESS;
}

}  // extern "C"
