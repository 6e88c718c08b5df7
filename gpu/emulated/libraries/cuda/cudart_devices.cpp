// The CUDA runtime: devices, their properties and peers, and the driver's functions.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <type_traits>
#include <utility>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/libraries/cuda/cudart.h"
#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {
namespace {

/// A member of cudaDeviceProp and the attribute with its value. The elements of an array are those
/// of consecutive attributes.
struct Property {
  std::size_t offset;
  std::size_t bytes;          ///< Size of the member.
  std::size_t element_bytes;  ///< Size of an int or a size_t.
  cudaDeviceAttr attribute;
};

#define PROPERTY(member, attribute)                                                    \
  Property {                                                                           \
    offsetof(cudaDeviceProp, member), sizeof(cudaDeviceProp::member),                  \
        sizeof(std::remove_all_extents_t<decltype(cudaDeviceProp::member)>), attribute \
  }
constexpr Property kProperties[] = {
    PROPERTY(sharedMemPerBlock, cudaDevAttrMaxSharedMemoryPerBlock),
    PROPERTY(regsPerBlock, cudaDevAttrMaxRegistersPerBlock),
    PROPERTY(warpSize, cudaDevAttrWarpSize),
    PROPERTY(memPitch, cudaDevAttrMaxPitch),
    PROPERTY(maxThreadsPerBlock, cudaDevAttrMaxThreadsPerBlock),
    PROPERTY(maxThreadsDim, cudaDevAttrMaxBlockDimX),
    PROPERTY(maxGridSize, cudaDevAttrMaxGridDimX),
    PROPERTY(totalConstMem, cudaDevAttrTotalConstantMemory),
    PROPERTY(major, cudaDevAttrComputeCapabilityMajor),
    PROPERTY(minor, cudaDevAttrComputeCapabilityMinor),
    PROPERTY(textureAlignment, cudaDevAttrTextureAlignment),
    PROPERTY(texturePitchAlignment, cudaDevAttrTexturePitchAlignment),
    PROPERTY(multiProcessorCount, cudaDevAttrMultiProcessorCount),
    PROPERTY(integrated, cudaDevAttrIntegrated),
    PROPERTY(canMapHostMemory, cudaDevAttrCanMapHostMemory),
#if CUDART_VERSION < 13000
    PROPERTY(clockRate, cudaDevAttrClockRate),
    PROPERTY(memoryClockRate, cudaDevAttrMemoryClockRate),
    PROPERTY(deviceOverlap, cudaDevAttrGpuOverlap),
    PROPERTY(kernelExecTimeoutEnabled, cudaDevAttrKernelExecTimeout),
    PROPERTY(computeMode, cudaDevAttrComputeMode),
    PROPERTY(singleToDoublePrecisionPerfRatio, cudaDevAttrSingleToDoublePrecisionPerfRatio),
    PROPERTY(cooperativeMultiDeviceLaunch, cudaDevAttrCooperativeLaunch),
    PROPERTY(maxTexture1DLinear, cudaDevAttrMaxTexture1DLinearWidth),
#else
    PROPERTY(deviceNumaConfig, cudaDevAttrNumaConfig),
    PROPERTY(deviceNumaId, cudaDevAttrNumaId),
    PROPERTY(mpsEnabled, cudaDevAttrMpsEnabled),
    PROPERTY(hostNumaId, cudaDevAttrHostNumaId),
#endif
    PROPERTY(maxTexture1D, cudaDevAttrMaxTexture1DWidth),
    PROPERTY(maxTexture1DMipmap, cudaDevAttrMaxTexture1DMipmappedWidth),
    PROPERTY(maxTexture2D, cudaDevAttrMaxTexture2DWidth),
    PROPERTY(maxTexture2DMipmap, cudaDevAttrMaxTexture2DMipmappedWidth),
    PROPERTY(maxTexture2DLinear, cudaDevAttrMaxTexture2DLinearWidth),
    PROPERTY(maxTexture2DGather, cudaDevAttrMaxTexture2DGatherWidth),
    PROPERTY(maxTexture3D, cudaDevAttrMaxTexture3DWidth),
    PROPERTY(maxTexture3DAlt, cudaDevAttrMaxTexture3DWidthAlt),
    PROPERTY(maxTextureCubemap, cudaDevAttrMaxTextureCubemapWidth),
    PROPERTY(maxTexture1DLayered, cudaDevAttrMaxTexture1DLayeredWidth),
    PROPERTY(maxTexture2DLayered, cudaDevAttrMaxTexture2DLayeredWidth),
    PROPERTY(maxTextureCubemapLayered, cudaDevAttrMaxTextureCubemapLayeredWidth),
    PROPERTY(maxSurface1D, cudaDevAttrMaxSurface1DWidth),
    PROPERTY(maxSurface2D, cudaDevAttrMaxSurface2DWidth),
    PROPERTY(maxSurface3D, cudaDevAttrMaxSurface3DWidth),
    PROPERTY(maxSurface1DLayered, cudaDevAttrMaxSurface1DLayeredWidth),
    PROPERTY(maxSurface2DLayered, cudaDevAttrMaxSurface2DLayeredWidth),
    PROPERTY(maxSurfaceCubemap, cudaDevAttrMaxSurfaceCubemapWidth),
    PROPERTY(maxSurfaceCubemapLayered, cudaDevAttrMaxSurfaceCubemapLayeredWidth),
    PROPERTY(surfaceAlignment, cudaDevAttrSurfaceAlignment),
    PROPERTY(concurrentKernels, cudaDevAttrConcurrentKernels),
    PROPERTY(ECCEnabled, cudaDevAttrEccEnabled),
    PROPERTY(pciBusID, cudaDevAttrPciBusId),
    PROPERTY(pciDeviceID, cudaDevAttrPciDeviceId),
    PROPERTY(pciDomainID, cudaDevAttrPciDomainId),
    PROPERTY(tccDriver, cudaDevAttrTccDriver),
    PROPERTY(asyncEngineCount, cudaDevAttrAsyncEngineCount),
    PROPERTY(unifiedAddressing, cudaDevAttrUnifiedAddressing),
    PROPERTY(memoryBusWidth, cudaDevAttrGlobalMemoryBusWidth),
    PROPERTY(l2CacheSize, cudaDevAttrL2CacheSize),
    PROPERTY(persistingL2CacheMaxSize, cudaDevAttrMaxPersistingL2CacheSize),
    PROPERTY(maxThreadsPerMultiProcessor, cudaDevAttrMaxThreadsPerMultiProcessor),
    PROPERTY(streamPrioritiesSupported, cudaDevAttrStreamPrioritiesSupported),
    PROPERTY(globalL1CacheSupported, cudaDevAttrGlobalL1CacheSupported),
    PROPERTY(localL1CacheSupported, cudaDevAttrLocalL1CacheSupported),
    PROPERTY(sharedMemPerMultiprocessor, cudaDevAttrMaxSharedMemoryPerMultiprocessor),
    PROPERTY(regsPerMultiprocessor, cudaDevAttrMaxRegistersPerMultiprocessor),
    PROPERTY(managedMemory, cudaDevAttrManagedMemory),
    PROPERTY(hostNativeAtomicSupported, cudaDevAttrHostNativeAtomicSupported),
    PROPERTY(pageableMemoryAccess, cudaDevAttrPageableMemoryAccess),
    PROPERTY(concurrentManagedAccess, cudaDevAttrConcurrentManagedAccess),
    PROPERTY(computePreemptionSupported, cudaDevAttrComputePreemptionSupported),
    PROPERTY(canUseHostPointerForRegisteredMem, cudaDevAttrCanUseHostPointerForRegisteredMem),
    PROPERTY(cooperativeLaunch, cudaDevAttrCooperativeLaunch),
    PROPERTY(sharedMemPerBlockOptin, cudaDevAttrMaxSharedMemoryPerBlockOptin),
    PROPERTY(maxBlocksPerMultiProcessor, cudaDevAttrMaxBlocksPerMultiprocessor),
    PROPERTY(accessPolicyMaxWindowSize, cudaDevAttrMaxAccessPolicyWindowSize),
    PROPERTY(reservedSharedMemPerBlock, cudaDevAttrReservedSharedMemoryPerBlock),
    PROPERTY(hostRegisterSupported, cudaDevAttrHostRegisterSupported),
    PROPERTY(sparseCudaArraySupported, cudaDevAttrSparseCudaArraySupported),
    PROPERTY(hostRegisterReadOnlySupported, cudaDevAttrHostRegisterReadOnlySupported),
    PROPERTY(timelineSemaphoreInteropSupported, cudaDevAttrTimelineSemaphoreInteropSupported),
    PROPERTY(memoryPoolsSupported, cudaDevAttrMemoryPoolsSupported),
    PROPERTY(ipcEventSupported, cudaDevAttrIpcEventSupport),
    PROPERTY(clusterLaunch, cudaDevAttrClusterLaunch),
};
#undef PROPERTY

void set_property(cudaDeviceProp& properties, const Property& property, int device) {
  char* const member = reinterpret_cast<char*>(&properties) + property.offset;
  for (std::size_t i = 0; i * property.element_bytes < property.bytes; ++i) {
    // An attribute that the device does not have is 0.
    int value = 0;
    (void)device_attribute(property.attribute + static_cast<int>(i), device, value);
    const auto size = static_cast<std::size_t>(value);
    std::memcpy(member + i * property.element_bytes,
                property.element_bytes == sizeof value ? static_cast<const void*>(&value) : &size,
                property.element_bytes);
  }
}

std::mutex peers_mutex;
const HeldAcrossFork<peers_mutex> peers_held;
std::set<std::pair<int, int>>& peers() {
  static auto* const peers = new std::set<std::pair<int, int>>;
  return *peers;
}

using GetProcAddress = int (*)(const char*, void**, int, std::uint64_t, int*);

/// Returns the function of that name from libcuda, or null.
void* driver_function(const char* name, int version, std::uint64_t flags) {
  void* const driver = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) return nullptr;
  const auto get = reinterpret_cast<GetProcAddress>(::dlsym(driver, "cuGetProcAddress_v2"));
  void* function = nullptr;
  return get != nullptr && get(name, &function, version, flags, nullptr) == 0 ? function : nullptr;
}

cudaError_t entry_point(const char* name, void** function, int version, std::uint64_t flags,
                        cudaDriverEntryPointQueryResult* found,
                        const char* asked = __builtin_FUNCTION()) {
  if (name == nullptr || function == nullptr) return result(cudaErrorInvalidValue, asked);
  *function = driver_function(name, version, flags);
  const bool there = *function != nullptr;
  if (found != nullptr)
    *found = there ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return there || found != nullptr ? cudaSuccess : result(cudaErrorSymbolNotFound, asked);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

// Devices.

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return result(cudaErrorInvalidValue);
  const Status status = use_runtime();
  *count = status == Status::insufficient_driver ? 0 : device_count();
  return result(status);
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return result(cudaErrorInvalidValue);
  *device = current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  const Status status = use_runtime();
  if (status == Status::success) set_current_device(device);
  return result(status);
}

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  return known_device(device) ? result(use_runtime()) : result(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  if (flags == nullptr) return result(cudaErrorInvalidValue);
  *flags = cudaDeviceScheduleAuto;
  return cudaSuccess;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  // The schedule flags, which determine how the host waits, have no effect here.
  constexpr unsigned kKnown = cudaDeviceMask | cudaDeviceLmemResizeToMax;
  return (flags & ~kKnown) == 0 ? cudaSuccess : result(cudaErrorInvalidValue);
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return result(cudaErrorInvalidValue);
  *version = driver_version(reported_version("cuda", CUDART_VERSION));
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return result(cudaErrorInvalidValue);
  *version = reported_version("cuda", CUDART_VERSION);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (value == nullptr) return result(cudaErrorInvalidValue);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  return device_attribute(attribute, device, *value) ? cudaSuccess : result(cudaErrorInvalidValue);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return result(cudaErrorInvalidValue);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  *properties = {};
  for (const Property& property : kProperties) set_property(*properties, property, device);
  std::snprintf(properties->name, sizeof properties->name, "%s", gpu_model().name);
  device_uuid(device, properties->uuid.bytes);
  properties->totalGlobalMem = gpu_model().memory;
  properties->unifiedFunctionPointers = 1;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  constexpr int kMinLength = 13;
  if (text == nullptr || size < kMinLength) return result(cudaErrorInvalidValue);
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  pci_bus_id(device, text, static_cast<std::size_t>(size));
  return cudaSuccess;
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  if (device == nullptr || text == nullptr) return result(cudaErrorInvalidValue);
  for (int ordinal = 0; ordinal < device_count(); ++ordinal) {
    char known[16];
    pci_bus_id(ordinal, known, sizeof known);
    if (std::strcmp(known, text) != 0) continue;
    *device = ordinal;
    return cudaSuccess;
  }
  return result(cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceSynchronize(void) {
  Status status = use_runtime();
  if (status == Status::success) status = synchronize_device();
  if (status == Status::success) record_synchronization("cudaDeviceSynchronize");
  return result(status);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least != nullptr) *least = kLeastPriority;
  if (greatest != nullptr) *greatest = kGreatestPriority;
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  if (can == nullptr) return result(cudaErrorInvalidValue);
  if (!known_device(device) || !known_device(peer)) return result(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  if (!known_device(peer) || peer == current_device()) return result(cudaErrorInvalidDevice);
  if (flags != 0) return result(cudaErrorInvalidValue);
  const std::lock_guard lock(peers_mutex);
  return peers().insert({current_device(), peer}).second
             ? cudaSuccess
             : result(cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  const std::lock_guard lock(peers_mutex);
  return peers().erase({current_device(), peer}) == 1 ? cudaSuccess
                                                      : result(cudaErrorPeerAccessNotEnabled);
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attribute, int from, int to) {
  if (value == nullptr) return result(cudaErrorInvalidValue);
  if (!known_device(from) || !known_device(to) || from == to) return result(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevP2PAttrAccessSupported:
      *value = 1;
      return cudaSuccess;
    case cudaDevP2PAttrPerformanceRank:
    case cudaDevP2PAttrNativeAtomicSupported:
    case cudaDevP2PAttrCudaArrayAccessSupported:
      *value = 0;
      return cudaSuccess;
    default:
      return result(cudaErrorInvalidValue);
  }
}

// cuda_profiler_api.h declares these.
cudaError_t cudaProfilerStart(void) {
  return cudaSuccess;
}
cudaError_t cudaProfilerStop(void) {
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPoint(const char* name, void** function, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* found) {
  return entry_point(name, function, reported_version("cuda", CUDART_VERSION), flags, found);
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned int version, unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* found) {
  return entry_point(name, function, static_cast<int>(version), flags, found);
}
#endif

}  // extern "C"
