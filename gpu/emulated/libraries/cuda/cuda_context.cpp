// The CUDA driver: its start, errors, functions by name, devices and contexts.

#include <cstdio>
#include <string>
#include <vector>

#include <cuda.h>
#include <dlfcn.h>

#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/libraries/cuda/cuda_result.h"
#include "gpu/emulated/libraries/cuda/error_texts.h"
#include "gpu/emulated/memory/device_memory.h"
#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(Status::no_binary_for_device) == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(static_cast<int>(Status::invalid_handle) == CUDA_ERROR_INVALID_HANDLE);
static_assert(static_cast<int>(Status::not_found) == CUDA_ERROR_NOT_FOUND);

/// Returns the device of a context, or -1 for an invalid context.
int device_of(CUcontext context) {
  for (int device = 0; device < device_count(); ++device)
    if (static_cast<void*>(context) == context_of(device)) return device;
  return -1;
}

thread_local std::vector<int> pushed_devices;

}  // namespace

const char* error_name(CUresult error) {
  constexpr std::size_t kErrors = 1000;
  return enumerator_text<CUresult, 0, kErrors>(error, nullptr);
}

CUresult outcome(CUresult error, const char* function) {
  if (error == CUDA_SUCCESS) return error;
  const char* const name = error_name(error);
  record_failure(function, error, name == nullptr ? "" : name);
  return error;
}

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
  if (name == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *name = error_name(error);
  return outcome(*name == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  if (text == nullptr) return outcome(CUDA_ERROR_INVALID_VALUE);
  *text = error_text(error);
  return outcome(*text == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
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

}  // extern "C"
