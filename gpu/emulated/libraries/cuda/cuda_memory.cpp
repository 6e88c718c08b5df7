// The CUDA driver: memory, copies and fills.

#include <cstddef>

#include <cuda.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/libraries/cuda/cuda_result.h"
#include "gpu/emulated/memory/device_memory.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

namespace optrace::emulated {
namespace {

template <typename Value>
CUresult give(void* to, Value value) {
  *static_cast<Value*>(to) = value;
  return CUDA_SUCCESS;
}

CUresult pointer_attribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  Allocation allocation{};
  if (!find_allocation(pointer_of(pointer), allocation)) return CUDA_ERROR_INVALID_VALUE;
  const bool on_host = allocation.kind == MemoryKind::pinned;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return give(data, reinterpret_cast<CUcontext>(context_of(allocation.device)));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return give(data, static_cast<unsigned>(on_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE));
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return give(data, pointer);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (allocation.kind == MemoryKind::device) return CUDA_ERROR_INVALID_VALUE;
      return give(data, pointer_of(pointer));
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return give(data, 0U);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return give(data, static_cast<unsigned long long>(address_of(allocation.pointer)));
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give(data, allocation.kind == MemoryKind::managed);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return give(data, allocation.device);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return give(data, address_of(allocation.pointer));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return give(data, allocation.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return give(data, true);
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult allocate_memory(void** pointer, std::size_t bytes, MemoryKind kind) {
  if (pointer == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Status status = use_devices();
  if (status == Status::success) status = check_unsafe_call();
  if (status != Status::success) return result(status);
  *pointer = allocate(bytes, kind, current_device());
  return *pointer == nullptr ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

CUresult copy_bytes(void* to, const void* from, std::size_t bytes, Direction direction,
                    CUstream stream, const char* function) {
  return result(copy({to, bytes, from, bytes, bytes, 1}, direction, stream, function));
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *total = gpu_model().memory;
  *free = available_memory() - used_memory(current_device());
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  return outcome(allocate_memory(reinterpret_cast<void**>(pointer), bytes, MemoryKind::device));
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned int) {
  return outcome(allocate_memory(reinterpret_cast<void**>(pointer), bytes, MemoryKind::managed));
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned int) {
  return outcome(allocate_memory(pointer, bytes, MemoryKind::pinned));
}

CUresult cuMemAllocHost(void** pointer, std::size_t bytes) {
  return outcome(allocate_memory(pointer, bytes, MemoryKind::pinned));
}

CUresult cuMemFree(CUdeviceptr pointer) {
  if (pointer == 0) return CUDA_SUCCESS;
  return outcome(result(release_to_pool(pointer_of(pointer), nullptr)));
}

CUresult cuMemFreeHost(void* pointer) {
  return outcome(release(pointer) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemGetAddressRange(CUdeviceptr* base, std::size_t* bytes, CUdeviceptr pointer) {
  Allocation allocation{};
  if (!find_allocation(pointer_of(pointer), allocation)) return outcome(CUDA_ERROR_NOT_FOUND);
  if (base != nullptr) *base = address_of(allocation.pointer);
  if (bytes != nullptr) *bytes = allocation.bytes;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr pointer) {
  return outcome(data == nullptr ? CUDA_ERROR_INVALID_VALUE
                                 : pointer_attribute(data, attribute, pointer));
}

CUresult cuMemcpyHtoD(CUdeviceptr to, const void* from, std::size_t bytes) {
  return outcome(copy_bytes(pointer_of(to), from, bytes, Direction::host_to_device, nullptr,
                            "cuMemcpyHtoD_v2"));
}

CUresult cuMemcpyDtoH(void* to, CUdeviceptr from, std::size_t bytes) {
  return outcome(copy_bytes(to, pointer_of(from), bytes, Direction::device_to_host, nullptr,
                            "cuMemcpyDtoH_v2"));
}

CUresult cuMemcpyDtoD(CUdeviceptr to, CUdeviceptr from, std::size_t bytes) {
  return outcome(copy_bytes(pointer_of(to), pointer_of(from), bytes, Direction::device_to_device,
                            nullptr, "cuMemcpyDtoD_v2"));
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void* from, std::size_t bytes, CUstream stream) {
  return outcome(copy_bytes(pointer_of(to), from, bytes, Direction::host_to_device, stream,
                            "cuMemcpyHtoDAsync_v2"));
}

CUresult cuMemcpyDtoHAsync(void* to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return outcome(copy_bytes(to, pointer_of(from), bytes, Direction::device_to_host, stream,
                            "cuMemcpyDtoHAsync_v2"));
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, std::size_t bytes, CUstream stream) {
  return outcome(copy_bytes(pointer_of(to), pointer_of(from), bytes, Direction::device_to_device,
                            stream, "cuMemcpyDtoDAsync_v2"));
}

CUresult cuMemsetD8(CUdeviceptr to, unsigned char value, std::size_t count) {
  return outcome(
      result(fill({pointer_of(to), count, value, 1, count, 1}, nullptr, "cuMemsetD8_v2")));
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t count, CUstream stream) {
  return outcome(
      result(fill({pointer_of(to), count, value, 1, count, 1}, stream, "cuMemsetD8Async")));
}

CUresult cuMemsetD32(CUdeviceptr to, unsigned int value, std::size_t count) {
  return outcome(result(fill({pointer_of(to), 0, value, 4, count, 1}, nullptr, "cuMemsetD32_v2")));
}

CUresult cuMemsetD32Async(CUdeviceptr to, unsigned int value, std::size_t count, CUstream stream) {
  return outcome(result(fill({pointer_of(to), 0, value, 4, count, 1}, stream, "cuMemsetD32Async")));
}

}  // extern "C"
