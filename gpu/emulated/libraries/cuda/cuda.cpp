// The CUDA driver: the functions of libcuda called by PyTorch, Triton and clients of the runtime.

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/memory/device_memory.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(Status::no_binary_for_device) == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(static_cast<int>(Status::invalid_handle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(static_cast<int>(Status::not_found) == CUDA_ERROR_NOT_FOUND);

constexpr std::size_t kGranularity = 2ULL << 20;

CUresult result(Status status) {
  return status == Status::invalid_configuration ? CUDA_ERROR_INVALID_VALUE
                                                 : static_cast<CUresult>(status);
}

bool known_device(int device) {
  return device >= 0 && device < device_count();
}

CUresult refuse(const char* function, const char* why) {
  Call call(function, "refused");
  call.json().key("why");
  call.json().string(why);
  call.record();
  return CUDA_ERROR_NOT_SUPPORTED;
}

/// Returns the device of a context, or -1 for an invalid context.
int device_of(CUcontext context) {
  for (int device = 0; device < device_count(); ++device)
    if (static_cast<void*>(context) == context_of(device)) return device;
  return -1;
}

void* pointer_of(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

struct ErrorText {
  CUresult error;
  const char* name;
  const char* text;
};
constexpr ErrorText kErrors[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS", "no error"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU",
     "no kernel image is available for execution on the device"},
    {CUDA_ERROR_FILE_NOT_FOUND, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {CUDA_ERROR_ILLEGAL_STATE, "CUDA_ERROR_ILLEGAL_STATE",
     "the operation cannot be performed in the present state"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
     "too many resources requested for launch"},
    {CUDA_ERROR_NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
     "operation failed due to a previous error during capture"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
     "operation would make the legacy stream depend on a capturing blocking stream"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

const ErrorText* error_text(CUresult error) {
  for (const ErrorText& known : kErrors)
    if (known.error == error) return &known;
  return nullptr;
}

/// Returns a driver function's result, after recording it if it is an error.
CUresult outcome(CUresult error, const char* function = __builtin_FUNCTION()) {
  if (error == CUDA_SUCCESS) return error;
  const ErrorText* const known = error_text(error);
  record_failure(function, error, known == nullptr ? "" : known->name);
  return error;
}

// Memory mapped by the program: address ranges, and pieces of a file in memory that are mapped into
// them.

struct Piece {
  std::uint64_t offset;  // Within the file.
  std::size_t bytes;
  int device;
  CUmemAllocationProp properties;
  int mapped;
  bool released;
};

std::mutex pieces_mutex;
const HeldAcrossFork<pieces_mutex> pieces_held;

struct Pieces {
  int file = -1;
  std::uint64_t size = 0;  // Size of the file. Offsets are never reused.
  CUmemGenericAllocationHandle last = 0;
  std::map<CUmemGenericAllocationHandle, Piece> all;
  std::map<CUdeviceptr, std::size_t> ranges;
  struct Mapped {
    std::size_t bytes;
    CUmemGenericAllocationHandle piece;
  };
  std::map<CUdeviceptr, Mapped> mapped;
};

Pieces& pieces() {
  static auto* const pieces = new Pieces;
  return *pieces;
}

/// Returns true if the whole range is in a reserved one. Requires pieces_mutex to be locked.
bool reserved(CUdeviceptr address, std::size_t bytes) {
  auto next = pieces().ranges.upper_bound(address);
  if (next == pieces().ranges.begin()) return false;
  --next;
  const std::uint64_t offset = address - next->first;
  return offset <= next->second && bytes <= next->second - offset;
}

bool mapped_in(CUdeviceptr address, std::size_t bytes) {
  const auto next = pieces().mapped.lower_bound(address);
  if (next != pieces().mapped.end() && next->first - address < bytes) return true;
  if (next == pieces().mapped.begin()) return false;
  const auto before = std::prev(next);
  return address - before->first < before->second.bytes;
}

/// Frees a piece that is neither mapped nor held any more. Returns its size in bytes, or 0 if it is
/// in use.
std::size_t drop_if_unused(CUmemGenericAllocationHandle handle, int& device) {
  const auto found = pieces().all.find(handle);
  if (found == pieces().all.end() || !found->second.released || found->second.mapped != 0) return 0;
  const Piece piece = found->second;
  ::fallocate(pieces().file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<off_t>(piece.offset), static_cast<off_t>(piece.bytes));
  pieces().all.erase(found);
  device = piece.device;
  return piece.bytes;
}

Kernel* kernel_of(CUfunction function) {
  return emulated::kernel_of(static_cast<const void*>(function));
}

CUresult attribute_of(Kernel* kernel, CUfunction_attribute attribute, int* value) {
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  KernelFigures figures{};
  const Status status = figures_of(kernel, figures);
  if (status != Status::success) return result(status);
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = figures.max_threads;
      break;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(figures.static_shared);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *value = static_cast<int>(figures.constant);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(figures.local);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = figures.registers;
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *value = figures.ptx_version;
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *value = figures.binary_version;
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *value = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = figures.dynamic_shared_limit;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *value = figures.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *value = figures.non_portable_clusters ? 1 : 0;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_attribute(Kernel* kernel, CUfunction_attribute attribute, int value) {
  constexpr int kMaxPercent = 100;
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      return result(set_dynamic_shared_limit(kernel, value));
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > kMaxPercent) return CUDA_ERROR_INVALID_VALUE;
      kernel->carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      if (gpu_model().major < 9) return CUDA_ERROR_NOT_SUPPORTED;
      kernel->non_portable_clusters = value != 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult launch_kernel(CUfunction function, const Launch& launched, CUstream stream,
                       const char* name) {
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = use_devices();
  return result(status == Status::success ? launch(kernel, launched, stream, name) : status);
}

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

CUresult give_memory(void** pointer, std::size_t bytes, MemoryKind kind) {
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

CUresult cuInit(unsigned int flags) {
  return outcome(flags == 0 ? result(use_devices()) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDriverGetVersion(int* version) {
  if (version == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *version = driver_version(reported_version("cuda", CUDA_VERSION));
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char** name) {
  const ErrorText* const known = error_text(error);
  if (name == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *name = known == nullptr ? nullptr : known->name;
  return outcome(known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  const ErrorText* const known = error_text(error);
  if (text == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *text = known == nullptr ? nullptr : known->text;
  return outcome(known == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuGetProcAddress_v2(const char* name, void** function, int, cuuint64_t,
                             CUdriverProcAddressQueryResult* found) {
  if (name == nullptr || function == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *function = nullptr;
  if (void* const self = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) {
    // A name refers to its newest version, as in this driver's header.
    for (const char* const suffix : {"_v4", "_v3", "_v2", ""}) {
      *function = ::dlsym(self, (std::string(name) + suffix).c_str());
      if (*function != nullptr) break;
    }
    ::dlclose(self);
  }
  const bool there = *function != nullptr;
  if (found != nullptr)
    *found = there ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return outcome(there ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND);
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char* name, void** function, int version, cuuint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

CUresult cuGetExportTable(const void** table, const CUuuid*) {
  if (table != nullptr) *table = nullptr;
  return outcome(CUDA_ERROR_NOT_FOUND);
}

#if CUDA_VERSION >= 12090
// Error logs. The emulated driver writes none, so callbacks are never called.

CUresult cuLogsRegisterCallback(CUlogsCallback callback, void*, CUlogsCallbackHandle* handle) {
  if (callback == nullptr || handle == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  static char registered;
  *handle = reinterpret_cast<CUlogsCallbackHandle>(&registered);
  return CUDA_SUCCESS;
}

CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle handle) {
  return outcome(handle == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}
#endif

// Devices and contexts.

CUresult cuDeviceGetCount(int* count) {
  if (count == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *count = device_count();
  return outcome(result(use_devices()));
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (device == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(ordinal)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char* name, int size, CUdevice device) {
  if (name == nullptr || size <= 0) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  std::snprintf(name, static_cast<std::size_t>(size), "%s", gpu_model().name);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  if (value == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  return outcome(device_attribute(attribute, device, *value) ? CUDA_SUCCESS
                                                             : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuDeviceTotalMem(std::size_t* bytes, CUdevice device) {
  if (bytes == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  *bytes = gpu_model().memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid* uuid, CUdevice device) {
  if (uuid == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  device_uuid(device, uuid->bytes);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char* text, int size, CUdevice device) {
  constexpr int kMinLength = 13;
  if (text == nullptr || size < kMinLength) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  pci_bus_id(device, text, static_cast<std::size_t>(size));
  return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int* can, CUdevice device, CUdevice peer) {
  if (can == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device) || !known_device(peer)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  *can = device != peer ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (context == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  *context = reinterpret_cast<CUcontext>(context_of(device));
  return outcome(result(use_devices()));
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return outcome(known_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags, int* active) {
  if (flags == nullptr || active == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(device)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  *flags = 0;
  // PyTorch queries this to avoid creating contexts on devices that it doesn't use.
  *active = device == current_device() || used_memory(device) != 0 ? 1 : 0;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  if (context == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *context = reinterpret_cast<CUcontext>(context_of(current_device()));
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return CUDA_SUCCESS;
  const int device = device_of(context);
  if (device < 0) return outcome(CUDA_ERROR_INVALID_CONTEXT);
  set_current_device(device);
  return CUDA_SUCCESS;
}

namespace {
thread_local std::vector<int> pushed_devices;
}

CUresult cuCtxPushCurrent(CUcontext context) {
  const int device = device_of(context);
  if (device < 0) return outcome(CUDA_ERROR_INVALID_CONTEXT);
  pushed_devices.push_back(current_device());
  set_current_device(device);
  return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent(CUcontext* context) {
  if (pushed_devices.empty()) return outcome(CUDA_ERROR_INVALID_CONTEXT);
  if (context != nullptr) *context = reinterpret_cast<CUcontext>(context_of(current_device()));
  set_current_device(pushed_devices.back());
  pushed_devices.pop_back();
  return CUDA_SUCCESS;
}

#undef cuCtxGetDevice
CUresult cuCtxGetDevice(CUdevice* device) {
  if (device == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *device = current_device();
  return CUDA_SUCCESS;
}

#undef cuCtxSynchronize
CUresult cuCtxSynchronize(void) {
  const Status status = synchronize_device();
  if (status == Status::success && recording()) {
    Call call("cuCtxSynchronize", "synchronize");
    call.record();
  }
  return outcome(result(status));
}

CUresult cuCtxGetLimit(std::size_t* value, CUlimit limit) {
  if (value == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  constexpr std::size_t kStack = 1024;
  constexpr std::size_t kPrintf = 1ULL << 20;
  constexpr std::size_t kHeap = 8ULL << 20;
  switch (limit) {
    case CU_LIMIT_STACK_SIZE:
      *value = kStack;
      return CUDA_SUCCESS;
    case CU_LIMIT_PRINTF_FIFO_SIZE:
      *value = kPrintf;
      return CUDA_SUCCESS;
    case CU_LIMIT_MALLOC_HEAP_SIZE:
      *value = kHeap;
      return CUDA_SUCCESS;
    default:
      return outcome(CUDA_ERROR_UNSUPPORTED_LIMIT);
  }
}

// Memory.

CUresult cuMemGetInfo(std::size_t* free, std::size_t* total) {
  if (free == nullptr || total == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *total = gpu_model().memory;
  *free = available_memory() - used_memory(current_device());
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr* pointer, std::size_t bytes) {
  return outcome(give_memory(reinterpret_cast<void**>(pointer), bytes, MemoryKind::device));
}

CUresult cuMemAllocManaged(CUdeviceptr* pointer, std::size_t bytes, unsigned int) {
  return outcome(give_memory(reinterpret_cast<void**>(pointer), bytes, MemoryKind::managed));
}

CUresult cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned int) {
  return outcome(give_memory(pointer, bytes, MemoryKind::pinned));
}

CUresult cuMemAllocHost(void** pointer, std::size_t bytes) {
  return outcome(give_memory(pointer, bytes, MemoryKind::pinned));
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

// Expandable segments: an address range is reserved first, and memory is mapped there on demand.

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* wanted,
                                       CUmemAllocationGranularity_flags) {
  if (granularity == nullptr || wanted == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t bytes, std::size_t alignment,
                             CUdeviceptr, unsigned long long flags) {
  if (address == nullptr || bytes == 0 || bytes % kGranularity != 0 || flags != 0 ||
      alignment > kGranularity || bytes > std::numeric_limits<std::size_t>::max() - kGranularity)
    return outcome(CUDA_ERROR_INVALID_VALUE);
  void* const all = ::mmap(nullptr, bytes + kGranularity, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return outcome(CUDA_ERROR_OUT_OF_MEMORY);
  // Align the range and free the excess at both ends.
  const CUdeviceptr first = address_of(all);
  const CUdeviceptr aligned = (first + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned != first) ::munmap(all, aligned - first);
  if (first + kGranularity != aligned)
    ::munmap(pointer_of(aligned + bytes), first + kGranularity - aligned);
  const std::lock_guard lock(pieces_mutex);
  pieces().ranges[aligned] = bytes;
  *address = aligned;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t bytes) {
  const std::lock_guard lock(pieces_mutex);
  const auto found = pieces().ranges.find(address);
  if (found == pieces().ranges.end() || found->second != bytes || mapped_in(address, bytes))
    return outcome(CUDA_ERROR_INVALID_VALUE);
  pieces().ranges.erase(found);
  ::munmap(pointer_of(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes,
                     const CUmemAllocationProp* wanted, unsigned long long flags) {
  if (handle == nullptr || wanted == nullptr || bytes == 0 || bytes % kGranularity != 0 ||
      flags != 0 || wanted->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return outcome(CUDA_ERROR_INVALID_VALUE);
  if (!known_device(wanted->location.id)) return outcome(CUDA_ERROR_INVALID_DEVICE);
  if (!take_memory(bytes, wanted->location.id)) return outcome(CUDA_ERROR_OUT_OF_MEMORY);
  bool made = false;
  {
    const std::lock_guard lock(pieces_mutex);
    Pieces& all = pieces();
    if (all.file < 0) all.file = ::memfd_create("optrace-device-memory", MFD_CLOEXEC);
    made = all.file >= 0 && ::ftruncate(all.file, static_cast<off_t>(all.size + bytes)) == 0;
    if (made) {
      *handle = ++all.last;
      all.all[*handle] = {all.size, bytes, wanted->location.id, *wanted, 0, false};
      all.size += bytes;
    }
  }
  if (!made) give_back_memory(bytes, wanted->location.id);
  return outcome(made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  std::size_t bytes = 0;
  int device = 0;
  {
    const std::lock_guard lock(pieces_mutex);
    const auto found = pieces().all.find(handle);
    if (found == pieces().all.end() || found->second.released)
      return outcome(CUDA_ERROR_INVALID_VALUE);
    found->second.released = true;
    bytes = drop_if_unused(handle, device);
  }
  if (bytes != 0) give_back_memory(bytes, device);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, std::size_t bytes, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  int device = 0;
  {
    const std::lock_guard lock(pieces_mutex);
    const auto found = pieces().all.find(handle);
    if (flags != 0 || offset != 0 || found == pieces().all.end() || found->second.released ||
        bytes != found->second.bytes || !reserved(address, bytes) || mapped_in(address, bytes))
      return outcome(CUDA_ERROR_INVALID_VALUE);
    if (::mmap(pointer_of(address), bytes, PROT_READ | PROT_WRITE,
               MAP_SHARED | MAP_FIXED | MAP_NORESERVE, pieces().file,
               static_cast<off_t>(found->second.offset)) == MAP_FAILED)
      return outcome(CUDA_ERROR_OUT_OF_MEMORY);
    ++found->second.mapped;
    pieces().mapped[address] = {bytes, handle};
    device = found->second.device;
  }
  return outcome(adopt_memory(pointer_of(address), bytes, MemoryKind::device, device, true)
                     ? CUDA_SUCCESS
                     : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t bytes, const CUmemAccessDesc* access,
                        std::size_t count) {
  if (access == nullptr || count == 0) return outcome(CUDA_ERROR_INVALID_VALUE);
  for (std::size_t i = 0; i < count; ++i)
    if (access[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
        !known_device(access[i].location.id))
      return outcome(CUDA_ERROR_INVALID_DEVICE);
  const std::lock_guard lock(pieces_mutex);
  // The whole range must be mapped. Mapped memory is accessible from all devices here.
  for (const CUdeviceptr end = address + bytes; address < end;) {
    const auto found = pieces().mapped.find(address);
    if (found == pieces().mapped.end()) return outcome(CUDA_ERROR_INVALID_VALUE);
    address += found->second.bytes;
  }
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, std::size_t bytes) {
  std::vector<std::pair<std::size_t, int>> given_back;
  std::vector<CUdeviceptr> unmapped;
  CUresult status = CUDA_SUCCESS;
  {
    const std::lock_guard lock(pieces_mutex);
    const CUdeviceptr end = address + bytes;
    for (CUdeviceptr at = address; at < end;) {
      const auto found = pieces().mapped.find(at);
      if (found == pieces().mapped.end() || found->second.bytes > end - at)
        return outcome(CUDA_ERROR_INVALID_VALUE);
      at += found->second.bytes;
    }
    for (CUdeviceptr at = address; at < end;) {
      const auto found = pieces().mapped.find(at);
      const Pieces::Mapped mapped = found->second;
      if (::mmap(pointer_of(at), mapped.bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
        status = outcome(CUDA_ERROR_OPERATING_SYSTEM);
        break;  // The rest of the range stays mapped.
      }
      pieces().mapped.erase(found);
      --pieces().all[mapped.piece].mapped;
      int device = 0;
      if (const std::size_t size = drop_if_unused(mapped.piece, device); size != 0)
        given_back.emplace_back(size, device);
      unmapped.push_back(at);
      at += mapped.bytes;
    }
  }
  for (const CUdeviceptr at : unmapped) disown_memory(pointer_of(at));
  for (const auto& [size, device] : given_back) give_back_memory(size, device);
  return status;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(pieces_mutex);
  const auto found = pieces().all.find(handle);
  if (properties == nullptr || found == pieces().all.end())
    return outcome(CUDA_ERROR_INVALID_VALUE);
  *properties = found->second.properties;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void*, CUmemGenericAllocationHandle,
                                      CUmemAllocationHandleType, unsigned long long) {
  return outcome(refuse("cuMemExportToShareableHandle",
                        "emulated device memory is not shared between processes"));
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle*, void*,
                                        CUmemAllocationHandleType) {
  return outcome(refuse("cuMemImportFromShareableHandle",
                        "emulated device memory is not shared between processes"));
}

// Streams and events, implemented as in the runtime.

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

// Modules and kernels.

CUresult cuModuleLoadData(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  Module* loaded = nullptr;
  const Status status = load_module(image, loaded);
  *module = reinterpret_cast<CUmodule>(loaded);
  return outcome(result(status));
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*,
                            void**) {
  return cuModuleLoadData(module, image);
}

CUresult cuModuleLoad(CUmodule* module, const char* path) {
  if (module == nullptr || path == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  FILE* const file = std::fopen(path, "rbe");
  if (file == nullptr) return outcome(CUDA_ERROR_FILE_NOT_FOUND);
  std::vector<char> content;
  char buffer[65536];
  std::size_t size = 0;
  do {
    size = std::fread(buffer, 1, sizeof buffer, file);
    content.insert(content.end(), buffer, buffer + size);
  } while (size == sizeof buffer);
  std::fclose(file);
  constexpr std::size_t kMinLength = 64;  // Size in bytes of the smallest image header.
  return outcome(content.size() < kMinLength ? CUDA_ERROR_INVALID_IMAGE
                                             : cuModuleLoadData(module, content.data()));
}

CUresult cuModuleUnload(CUmodule handle) {
  Module* const module = live_module(handle);
  if (module == nullptr) return outcome(CUDA_ERROR_INVALID_HANDLE);
  remove_module(module);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule handle, const char* name) {
  if (function == nullptr || name == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  Kernel* kernel = nullptr;
  const Status status = find_kernel(live_module(handle), name, kernel);
  *function = reinterpret_cast<CUfunction>(kernel);
  return outcome(result(status));
}

CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  return outcome(attribute_of(kernel_of(function), attribute, value));
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  return outcome(set_attribute(kernel_of(function), attribute, value));
}

CUresult cuFuncSetCacheConfig(CUfunction function, CUfunc_cache) {
  return outcome(kernel_of(function) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction function, int threads,
                                                     std::size_t shared) {
  Kernel* const kernel = kernel_of(function);
  if (blocks == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (kernel == nullptr) return outcome(CUDA_ERROR_INVALID_HANDLE);
  return outcome(result(active_blocks(kernel, threads, shared, *blocks)));
}

CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction function,
                                          CUoccupancyB2DSize shared_of, std::size_t shared,
                                          int limit) {
  Kernel* const kernel = kernel_of(function);
  if (grid == nullptr || block == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  if (kernel == nullptr) return outcome(CUDA_ERROR_INVALID_HANDLE);
  return outcome(result(best_block(kernel, shared_of, shared, limit, *grid, *block)));
}

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared, CUstream stream,
                        void** arguments, void**) {
  return outcome(launch_kernel(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, false, {0, 0, 0}, arguments},
      stream, "cuLaunchKernel"));
}

CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                                   unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                   unsigned int block_z, unsigned int shared, CUstream stream,
                                   void** arguments) {
  return outcome(launch_kernel(
      function,
      {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, true, {0, 0, 0}, arguments},
      stream, "cuLaunchCooperativeKernel"));
}

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** arguments,
                          void**) {
  if (config == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  Launch launched{{config->gridDimX, config->gridDimY, config->gridDimZ},
                  {config->blockDimX, config->blockDimY, config->blockDimZ},
                  config->sharedMemBytes,
                  false,
                  {0, 0, 0},
                  arguments};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      launched.cooperative = attribute.value.cooperative != 0;
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launched.cluster[0] = attribute.value.clusterDim.x;
      launched.cluster[1] = attribute.value.clusterDim.y;
      launched.cluster[2] = attribute.value.clusterDim.z;
    }
  }
  return outcome(launch_kernel(function, launched, config->hStream, "cuLaunchKernelEx"));
}

CUresult cuTensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                                void* address, const cuuint64_t* sizes, const cuuint64_t* strides,
                                const cuuint32_t* box, const cuuint32_t* element_strides,
                                CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                                CUtensorMapFloatOOBfill) {
  constexpr cuuint32_t kMaxDimensions = 5;
  constexpr cuuint32_t kMaxBoxSize = 256;
  constexpr std::uintptr_t kAlignment = 16;
  if (gpu_model().major < 9)
    return outcome(refuse("cuTensorMapEncodeTiled", "tensor maps take compute capability 9.0"));
  if (map == nullptr || rank == 0 || rank > kMaxDimensions || address == nullptr ||
      reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0 || sizes == nullptr ||
      box == nullptr || element_strides == nullptr || (rank > 1 && strides == nullptr))
    return outcome(CUDA_ERROR_INVALID_VALUE);
  for (cuuint32_t i = 0; i < rank; ++i) {
    if (sizes[i] == 0 || sizes[i] > 1ULL << 32 || box[i] == 0 || box[i] > kMaxBoxSize)
      return outcome(CUDA_ERROR_INVALID_VALUE);
    if (i + 1 < rank && strides[i] % kAlignment != 0) return outcome(CUDA_ERROR_INVALID_VALUE);
  }
  // The content is opaque; nothing here reads it.
  *map = {};
  const cuuint64_t said[] = {reinterpret_cast<std::uintptr_t>(address), type, rank, sizes[0]};
  std::memcpy(map, said, sizeof said);
  return CUDA_SUCCESS;
}

}  // extern "C"
