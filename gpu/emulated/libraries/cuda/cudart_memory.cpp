// The CUDA runtime: memory, copies, pools and sharing between processes.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <cuda_runtime_api.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/libraries/cuda/cudart.h"
#include "gpu/emulated/memory/device_memory.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(Direction::by_address) == cudaMemcpyDefault);

cudaError_t allocate_memory(void** pointer, std::size_t bytes, MemoryKind kind,
                            const char* function) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue, function);
  const Status status = begin_unsafe();
  if (status != Status::success) return result(status, function);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = allocate(bytes, kind, current_device());
  if (*pointer != nullptr) return cudaSuccess;
  record_refusal(function, "the device's memory does not suffice");
  return result(cudaErrorMemoryAllocation, function);
}

cudaError_t free_memory(void* pointer, bool pinned, const char* function = __builtin_FUNCTION()) {
  const Status status = begin_unsafe();
  if (status != Status::success) return result(status, function);
  if (pointer == nullptr) return cudaSuccess;
  Allocation allocation{};
  if (!find_allocation(pointer, allocation) || (allocation.kind == MemoryKind::pinned) != pinned ||
      allocation.pointer != pointer)
    return result(cudaErrorInvalidValue, function);
  // The memory may belong to a pool.
  return result(release_to_pool(pointer, nullptr), function);
}

cudaError_t copy_rows(const Copy& rows, cudaMemcpyKind kind, cudaStream_t stream,
                      const char* function, bool waits) {
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault)
    return result(cudaErrorInvalidMemcpyDirection, function);
  const Status status = waits ? begin_unsafe() : use_runtime();
  if (status != Status::success) return result(status, function);
  return result(copy(rows, static_cast<Direction>(kind), stream, function), function);
}

cudaError_t copy_bytes(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                       cudaStream_t stream, const char* function, bool waits) {
  return copy_rows({to, bytes, from, bytes, bytes, 1}, kind, stream, function, waits);
}

/// Computes the address at an offset of a symbol. Returns the runtime's error if the range is not
/// in the symbol.
cudaError_t symbol_range(const void* symbol, std::size_t bytes, std::size_t offset,
                         char*& address) {
  void* first = nullptr;
  std::size_t size = 0;
  const Status status = variable_of(symbol, first, size);
  if (status == Status::not_found) return cudaErrorInvalidSymbol;
  if (status != Status::success) return static_cast<cudaError_t>(status);
  if (offset > size || bytes > size - offset) return cudaErrorInvalidValue;
  address = static_cast<char*>(first) + offset;
  return cudaSuccess;
}

cudaError_t fill_bytes(void* to, int value, std::size_t pitch, std::size_t width, std::size_t rows,
                       cudaStream_t stream, const char* function, bool waits) {
  const Status status = waits ? begin_unsafe() : use_runtime();
  if (status != Status::success) return result(status, function);
  return result(
      fill({to, pitch, static_cast<std::uint32_t>(value) & 0xFF, 1, width, rows}, stream, function),
      function);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return allocate_memory(pointer, bytes, MemoryKind::device, "cudaMalloc");
}

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned int flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
    return result(cudaErrorInvalidValue);
  if (bytes == 0) return result(cudaErrorInvalidValue);
  return allocate_memory(pointer, bytes, MemoryKind::managed, "cudaMallocManaged");
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return allocate_memory(pointer, bytes, MemoryKind::pinned, "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0) return result(cudaErrorInvalidValue);
  return allocate_memory(pointer, bytes, MemoryKind::pinned, "cudaHostAlloc");
}

cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                            std::size_t rows) {
  constexpr std::size_t kAlignment = 512;
  if (pitch == nullptr || width > SIZE_MAX - kAlignment) return result(cudaErrorInvalidValue);
  *pitch = (width + kAlignment - 1) / kAlignment * kAlignment;
  if (*pitch != 0 && rows > SIZE_MAX / *pitch) return result(cudaErrorInvalidValue);
  return allocate_memory(pointer, *pitch * rows, MemoryKind::device, "cudaMallocPitch");
}

cudaError_t cudaFree(void* pointer) {
  return free_memory(pointer, false);
}
cudaError_t cudaFreeHost(void* pointer) {
  return free_memory(pointer, true);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return result(cudaErrorInvalidValue);
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  *total = gpu_model().memory;
  *free = available_memory() - used_memory(current_device());
  return cudaSuccess;
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown = cudaHostRegisterPortable | cudaHostRegisterMapped |
                              cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;
  if (pointer == nullptr || bytes == 0 || (flags & ~kKnown) != 0)
    return result(cudaErrorInvalidValue);
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return adopt_memory(pointer, bytes, MemoryKind::pinned, current_device(), false)
             ? cudaSuccess
             : result(cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  return disown_memory(pointer) ? cudaSuccess : result(cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  Allocation allocation{};
  if (device == nullptr || flags != 0 || !find_allocation(host, allocation) ||
      allocation.kind != MemoryKind::pinned)
    return result(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (attributes == nullptr) return result(cudaErrorInvalidValue);
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  *attributes = {};
  Allocation allocation{};
  constexpr int kNoDevice = -2;
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = kNoDevice;
  if (!find_allocation(pointer, allocation)) return cudaSuccess;
  attributes->device = allocation.device;
  attributes->devicePointer = const_cast<void*>(pointer);
  switch (allocation.kind) {
    case MemoryKind::device:
      attributes->type = cudaMemoryTypeDevice;
      break;
    case MemoryKind::pinned:
      attributes->type = cudaMemoryTypeHost;
      break;
    case MemoryKind::managed:
      attributes->type = cudaMemoryTypeManaged;
      break;
  }
  if (allocation.kind != MemoryKind::device) attributes->hostPointer = const_cast<void*>(pointer);
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return copy_bytes(to, from, bytes, kind, nullptr, "cudaMemcpy", true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return copy_bytes(to, from, bytes, kind, stream, "cudaMemcpyAsync", false);
}

cudaError_t cudaMemcpy2D(void* to, std::size_t to_pitch, const void* from, std::size_t from_pitch,
                         std::size_t width, std::size_t rows, cudaMemcpyKind kind) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  return copy_rows({to, to_pitch, from, from_pitch, width, rows}, kind, nullptr, "cudaMemcpy2D",
                   true);
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t rows,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (width > to_pitch || width > from_pitch) return result(cudaErrorInvalidPitchValue);
  return copy_rows({to, to_pitch, from, from_pitch, width, rows}, kind, stream, "cudaMemcpy2DAsync",
                   false);
}

cudaError_t cudaMemcpyPeer(void* to, int to_device, const void* from, int from_device,
                           std::size_t bytes) {
  if (!known_device(to_device) || !known_device(from_device)) return result(cudaErrorInvalidDevice);
  return copy_bytes(to, from, bytes, cudaMemcpyDeviceToDevice, nullptr, "cudaMemcpyPeer", true);
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device,
                                std::size_t bytes, cudaStream_t stream) {
  if (!known_device(to_device) || !known_device(from_device)) return result(cudaErrorInvalidDevice);
  return copy_bytes(to, from, bytes, cudaMemcpyDeviceToDevice, stream, "cudaMemcpyPeerAsync",
                    false);
}

cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* from, std::size_t bytes,
                               std::size_t offset, cudaMemcpyKind kind) {
  char* to = nullptr;
  const cudaError_t error = symbol_range(symbol, bytes, offset, to);
  if (error != cudaSuccess) return result(error);
  return copy_bytes(to, from, bytes, kind, nullptr, "cudaMemcpyToSymbol", true);
}

cudaError_t cudaMemcpyToSymbolAsync(const void* symbol, const void* from, std::size_t bytes,
                                    std::size_t offset, cudaMemcpyKind kind, cudaStream_t stream) {
  char* to = nullptr;
  const cudaError_t error = symbol_range(symbol, bytes, offset, to);
  if (error != cudaSuccess) return result(error);
  return copy_bytes(to, from, bytes, kind, stream, "cudaMemcpyToSymbolAsync", false);
}

cudaError_t cudaMemcpyFromSymbol(void* to, const void* symbol, std::size_t bytes,
                                 std::size_t offset, cudaMemcpyKind kind) {
  char* from = nullptr;
  const cudaError_t error = symbol_range(symbol, bytes, offset, from);
  if (error != cudaSuccess) return result(error);
  return copy_bytes(to, from, bytes, kind, nullptr, "cudaMemcpyFromSymbol", true);
}

cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  if (address == nullptr) return result(cudaErrorInvalidValue);
  char* first = nullptr;
  const cudaError_t error = symbol_range(symbol, 0, 0, first);
  if (error == cudaSuccess) *address = first;
  return result(error);
}

cudaError_t cudaGetSymbolSize(std::size_t* size, const void* symbol) {
  if (size == nullptr) return result(cudaErrorInvalidValue);
  void* address = nullptr;
  const Status status = variable_of(symbol, address, *size);
  return status == Status::not_found ? result(cudaErrorInvalidSymbol) : result(status);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  return fill_bytes(to, value, bytes, bytes, 1, nullptr, "cudaMemset", true);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return fill_bytes(to, value, bytes, bytes, 1, stream, "cudaMemsetAsync", false);
}

cudaError_t cudaMemset2D(void* to, std::size_t pitch, int value, std::size_t width,
                         std::size_t rows) {
  return fill_bytes(to, value, pitch, width, rows, nullptr, "cudaMemset2D", true);
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t rows, cudaStream_t stream) {
  return fill_bytes(to, value, pitch, width, rows, stream, "cudaMemset2DAsync", false);
}

// Pools.

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (pool == nullptr) return result(cudaErrorInvalidValue);
  *pool = reinterpret_cast<cudaMemPool_t>(default_pool(device));
  return *pool != nullptr ? cudaSuccess : result(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* pool, const cudaMemPoolProps* properties) {
  if (pool == nullptr || properties == nullptr ||
      properties->location.type != cudaMemLocationTypeDevice)
    return result(cudaErrorInvalidValue);
  *pool = reinterpret_cast<cudaMemPool_t>(create_pool(properties->location.id));
  return *pool != nullptr ? cudaSuccess : result(cudaErrorInvalidDevice);
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  return result(destroy_pool(reinterpret_cast<Pool*>(pool)));
}

cudaError_t cudaMallocAsync(void** pointer, std::size_t bytes, cudaStream_t stream) {
  return cudaMallocFromPoolAsync(
      pointer, bytes, reinterpret_cast<cudaMemPool_t>(default_pool(current_device())), stream);
}

cudaError_t cudaMallocFromPoolAsync(void** pointer, std::size_t bytes, cudaMemPool_t pool,
                                    cudaStream_t stream) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue);
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(
      allocate_from(reinterpret_cast<Pool*>(pool), bytes, stream, *pointer, "cudaMallocAsync"));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return result(release_to_pool(pointer, stream));
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, std::size_t) {
  // A pool keeps no unused memory.
  PoolUse use{};
  return result(pool_use(reinterpret_cast<Pool*>(pool), use));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc* access,
                                 std::size_t count) {
  PoolUse use{};
  const Status status = pool_use(reinterpret_cast<Pool*>(pool), use);
  if (status != Status::success) return result(status);
  if (access == nullptr) return result(cudaErrorInvalidValue);
  for (std::size_t i = 0; i < count; ++i)
    if (access[i].location.type == cudaMemLocationTypeDevice &&
        !known_device(access[i].location.id))
      return result(cudaErrorInvalidDevice);
  return cudaSuccess;
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  if (value == nullptr) return result(cudaErrorInvalidValue);
  auto* const pool = reinterpret_cast<Pool*>(handle);
  PoolUse use{};
  std::uint64_t setting = 0;
  Status status = pool_use(pool, use);
  if (status == Status::success) status = pool_setting(pool, attribute, setting);
  if (status != Status::success) return result(status);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: {
      const int number = static_cast<int>(setting);
      std::memcpy(value, &number, sizeof number);
      return cudaSuccess;
    }
    case cudaMemPoolAttrReleaseThreshold:
      break;
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      setting = use.now;
      break;
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      setting = use.most;
      break;
    default:
      return result(cudaErrorInvalidValue);
  }
  std::memcpy(value, &setting, sizeof setting);
  return cudaSuccess;
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute, void* value) {
  if (value == nullptr) return result(cudaErrorInvalidValue);
  auto* const pool = reinterpret_cast<Pool*>(handle);
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
    case cudaMemPoolReuseAllowOpportunistic:
    case cudaMemPoolReuseAllowInternalDependencies: {
      int number = 0;
      std::memcpy(&number, value, sizeof number);
      return result(set_pool_setting(pool, attribute, static_cast<std::uint64_t>(number)));
    }
    case cudaMemPoolAttrReleaseThreshold: {
      std::uint64_t number = 0;
      std::memcpy(&number, value, sizeof number);
      return result(set_pool_setting(pool, attribute, number));
    }
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      return result(reset_pool_high(pool));
    default:
      return result(cudaErrorInvalidValue);
  }
}

// Memory allocated by graphs. Only the memory used by their nodes is kept.

cudaError_t cudaDeviceGetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  if (value == nullptr || attribute < cudaGraphMemAttrUsedMemCurrent ||
      attribute > cudaGraphMemAttrReservedMemHigh)
    return result(cudaErrorInvalidValue);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  const std::uint64_t bytes = graph_memory(device);
  std::memcpy(value, &bytes, sizeof bytes);
  return cudaSuccess;
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, cudaGraphMemAttributeType attribute,
                                           void* value) {
  // Only the high-water marks can be set, and only to their current values.
  if (value == nullptr ||
      (attribute != cudaGraphMemAttrUsedMemHigh && attribute != cudaGraphMemAttrReservedMemHigh))
    return result(cudaErrorInvalidValue);
  return known_device(device) ? cudaSuccess : result(cudaErrorInvalidDevice);
}

// Sharing between processes, which is not supported: device memory belongs to one process.

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t*, void*) {
  record_refusal("cudaIpcGetMemHandle", "emulated device memory is not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) {
  record_refusal("cudaIpcOpenMemHandle", "emulated device memory is not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcCloseMemHandle(void*) {
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  record_refusal("cudaIpcGetEventHandle", "emulated events are not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  record_refusal("cudaIpcOpenEventHandle", "emulated events are not shared between processes");
  return result(cudaErrorNotSupported);
}

}  // extern "C"
