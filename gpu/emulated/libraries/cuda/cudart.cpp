// The CUDA runtime: devices, memory, streams, events and launches. Graphs are in
// cudart_graphs.cpp.

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/device/device_fork.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/libraries/cuda/cudart_error.h"
#include "gpu/emulated/memory/device_memory.h"
#include "gpu/emulated/streams/device_streams.h"
#include "gpu/emulated/streams/device_transfers.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(Status::no_binary_for_device) == cudaErrorNoKernelImageForDevice);
static_assert(static_cast<int>(Status::invalid_handle) == cudaErrorInvalidResourceHandle);
static_assert(static_cast<int>(Status::capture_implicit) == cudaErrorStreamCaptureImplicit);
static_assert(static_cast<int>(Status::invalid_configuration) == cudaErrorInvalidConfiguration);
static_assert(static_cast<int>(CaptureMode::relaxed) == cudaStreamCaptureModeRelaxed);
static_assert(static_cast<int>(Direction::by_address) == cudaMemcpyDefault);

bool known_device(int device) {
  return device >= 0 && device < device_count();
}

/// The runtime requires a driver of its own major version or a later one.
Status use_runtime() {
  constexpr int kMajor = 1000;
  return driver_version(CUDART_VERSION) / kMajor < CUDART_VERSION / kMajor
             ? Status::insufficient_driver
             : use_devices();
}

/// Checks before a call that a capture of this thread may forbid.
Status begin_unsafe() {
  const Status status = use_runtime();
  return status == Status::success ? check_unsafe_call() : status;
}

void refuse(const char* function, const char* why) {
  Call call(function, "refused");
  call.json().key("why");
  call.json().string(why);
  call.record();
}

cudaError_t give_memory(void** pointer, std::size_t bytes, MemoryKind kind, const char* function) {
  if (pointer == nullptr) return result(cudaErrorInvalidValue, function);
  const Status status = begin_unsafe();
  if (status != Status::success) return result(status, function);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  *pointer = allocate(bytes, kind, current_device());
  if (*pointer != nullptr) return cudaSuccess;
  refuse(function, "the device's memory does not suffice");
  return result(cudaErrorMemoryAllocation, function);
}

cudaError_t take_memory_back(void* pointer, bool pinned,
                             const char* function = __builtin_FUNCTION()) {
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

void synchronized(const char* function) {
  if (!recording()) return;
  Call call(function, "synchronize");
  call.record();
}

struct Configuration {
  dim3 grid;
  dim3 block;
  std::size_t shared;
  void* stream;
};
thread_local std::vector<Configuration> configurations;

cudaError_t launch_kernel(Kernel* kernel, dim3 grid, dim3 block, void* const* arguments,
                          std::size_t shared, cudaStream_t stream, bool cooperative,
                          const char* function) {
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction, function);
  const Status status = use_runtime();
  if (status != Status::success) return result(status, function);
  return result(launch(kernel,
                       {{grid.x, grid.y, grid.z},
                        {block.x, block.y, block.z},
                        shared,
                        cooperative,
                        {0, 0, 0},
                        arguments},
                       stream, function),
                function);
}

cudaError_t set_kernel_attribute(Kernel* kernel, cudaFuncAttribute attribute, int value,
                                 const char* function = __builtin_FUNCTION()) {
  constexpr int kMaxPercent = 100;
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction, function);
  switch (attribute) {
    case cudaFuncAttributeMaxDynamicSharedMemorySize:
      return result(set_dynamic_shared_limit(kernel, value), function);
    case cudaFuncAttributePreferredSharedMemoryCarveout:
      if (value < -1 || value > kMaxPercent) return result(cudaErrorInvalidValue, function);
      kernel->carveout = value;
      return cudaSuccess;
    case cudaFuncAttributeNonPortableClusterSizeAllowed:
      if (gpu_model().major < 9) return result(cudaErrorNotSupported, function);
      kernel->non_portable_clusters = value != 0;
      return cudaSuccess;
    default:
      return result(cudaErrorInvalidValue, function);
  }
}

std::mutex peers_mutex;
const HeldAcrossFork<peers_mutex> peers_held;
std::set<std::pair<int, int>>& peers() {
  static auto* const peers = new std::set<std::pair<int, int>>;
  return *peers;
}

/// Returns a device's attribute, or 0 if it does not have it.
int attribute_of(cudaDeviceAttr attribute, int device) {
  int value = 0;
  return device_attribute(attribute, device, value) ? value : 0;
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

#if CUDART_VERSION >= 12080
std::vector<char> content_of(const char* path) {
  std::vector<char> content;
  FILE* const file = std::fopen(path, "rbe");
  if (file == nullptr) return content;
  std::array<char, 65536> buffer{};
  std::size_t size = 0;
  do {
    size = std::fread(buffer.data(), 1, buffer.size(), file);
    content.insert(content.end(), buffer.begin(), buffer.begin() + static_cast<long>(size));
  } while (size == buffer.size());
  std::fclose(file);
  return content;
}
#endif

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
  const auto get = [device](cudaDeviceAttr attribute) { return attribute_of(attribute, device); };
  const auto get_size = [&get](cudaDeviceAttr attribute) {
    return static_cast<std::size_t>(get(attribute));
  };
  *properties = {};
  cudaDeviceProp& p = *properties;
  std::snprintf(p.name, sizeof p.name, "%s", gpu_model().name);
  device_uuid(device, p.uuid.bytes);
  p.totalGlobalMem = gpu_model().memory;
  p.sharedMemPerBlock = get_size(cudaDevAttrMaxSharedMemoryPerBlock);
  p.regsPerBlock = get(cudaDevAttrMaxRegistersPerBlock);
  p.warpSize = get(cudaDevAttrWarpSize);
  p.memPitch = get_size(cudaDevAttrMaxPitch);
  p.maxThreadsPerBlock = get(cudaDevAttrMaxThreadsPerBlock);
  p.maxThreadsDim[0] = get(cudaDevAttrMaxBlockDimX);
  p.maxThreadsDim[1] = get(cudaDevAttrMaxBlockDimY);
  p.maxThreadsDim[2] = get(cudaDevAttrMaxBlockDimZ);
  p.maxGridSize[0] = get(cudaDevAttrMaxGridDimX);
  p.maxGridSize[1] = get(cudaDevAttrMaxGridDimY);
  p.maxGridSize[2] = get(cudaDevAttrMaxGridDimZ);
  p.totalConstMem = get_size(cudaDevAttrTotalConstantMemory);
  p.major = gpu_model().major;
  p.minor = gpu_model().minor;
  p.textureAlignment = get_size(cudaDevAttrTextureAlignment);
  p.texturePitchAlignment = get_size(cudaDevAttrTexturePitchAlignment);
  p.multiProcessorCount = gpu_model().multiprocessors;
  p.integrated = get(cudaDevAttrIntegrated);
  p.canMapHostMemory = get(cudaDevAttrCanMapHostMemory);
#if CUDART_VERSION < 13000
  p.clockRate = get(cudaDevAttrClockRate);
  p.memoryClockRate = get(cudaDevAttrMemoryClockRate);
  p.deviceOverlap = get(cudaDevAttrGpuOverlap);
  p.kernelExecTimeoutEnabled = get(cudaDevAttrKernelExecTimeout);
  p.computeMode = get(cudaDevAttrComputeMode);
  p.singleToDoublePrecisionPerfRatio = get(cudaDevAttrSingleToDoublePrecisionPerfRatio);
  p.cooperativeMultiDeviceLaunch = get(cudaDevAttrCooperativeLaunch);
  p.maxTexture1DLinear = get(cudaDevAttrMaxTexture1DLinearWidth);
#else
  p.deviceNumaConfig = get(cudaDevAttrNumaConfig);
  p.deviceNumaId = get(cudaDevAttrNumaId);
  p.mpsEnabled = get(cudaDevAttrMpsEnabled);
  p.hostNumaId = get(cudaDevAttrHostNumaId);
#endif
  p.maxTexture1D = get(cudaDevAttrMaxTexture1DWidth);
  p.maxTexture1DMipmap = get(cudaDevAttrMaxTexture1DMipmappedWidth);
  p.maxTexture2D[0] = get(cudaDevAttrMaxTexture2DWidth);
  p.maxTexture2D[1] = get(cudaDevAttrMaxTexture2DHeight);
  p.maxTexture2DMipmap[0] = get(cudaDevAttrMaxTexture2DMipmappedWidth);
  p.maxTexture2DMipmap[1] = get(cudaDevAttrMaxTexture2DMipmappedHeight);
  p.maxTexture2DLinear[0] = get(cudaDevAttrMaxTexture2DLinearWidth);
  p.maxTexture2DLinear[1] = get(cudaDevAttrMaxTexture2DLinearHeight);
  p.maxTexture2DLinear[2] = get(cudaDevAttrMaxTexture2DLinearPitch);
  p.maxTexture2DGather[0] = get(cudaDevAttrMaxTexture2DGatherWidth);
  p.maxTexture2DGather[1] = get(cudaDevAttrMaxTexture2DGatherHeight);
  p.maxTexture3D[0] = get(cudaDevAttrMaxTexture3DWidth);
  p.maxTexture3D[1] = get(cudaDevAttrMaxTexture3DHeight);
  p.maxTexture3D[2] = get(cudaDevAttrMaxTexture3DDepth);
  p.maxTexture3DAlt[0] = get(cudaDevAttrMaxTexture3DWidthAlt);
  p.maxTexture3DAlt[1] = get(cudaDevAttrMaxTexture3DHeightAlt);
  p.maxTexture3DAlt[2] = get(cudaDevAttrMaxTexture3DDepthAlt);
  p.maxTextureCubemap = get(cudaDevAttrMaxTextureCubemapWidth);
  p.maxTexture1DLayered[0] = get(cudaDevAttrMaxTexture1DLayeredWidth);
  p.maxTexture1DLayered[1] = get(cudaDevAttrMaxTexture1DLayeredLayers);
  p.maxTexture2DLayered[0] = get(cudaDevAttrMaxTexture2DLayeredWidth);
  p.maxTexture2DLayered[1] = get(cudaDevAttrMaxTexture2DLayeredHeight);
  p.maxTexture2DLayered[2] = get(cudaDevAttrMaxTexture2DLayeredLayers);
  p.maxTextureCubemapLayered[0] = get(cudaDevAttrMaxTextureCubemapLayeredWidth);
  p.maxTextureCubemapLayered[1] = get(cudaDevAttrMaxTextureCubemapLayeredLayers);
  p.maxSurface1D = get(cudaDevAttrMaxSurface1DWidth);
  p.maxSurface2D[0] = get(cudaDevAttrMaxSurface2DWidth);
  p.maxSurface2D[1] = get(cudaDevAttrMaxSurface2DHeight);
  p.maxSurface3D[0] = get(cudaDevAttrMaxSurface3DWidth);
  p.maxSurface3D[1] = get(cudaDevAttrMaxSurface3DHeight);
  p.maxSurface3D[2] = get(cudaDevAttrMaxSurface3DDepth);
  p.maxSurface1DLayered[0] = get(cudaDevAttrMaxSurface1DLayeredWidth);
  p.maxSurface1DLayered[1] = get(cudaDevAttrMaxSurface1DLayeredLayers);
  p.maxSurface2DLayered[0] = get(cudaDevAttrMaxSurface2DLayeredWidth);
  p.maxSurface2DLayered[1] = get(cudaDevAttrMaxSurface2DLayeredHeight);
  p.maxSurface2DLayered[2] = get(cudaDevAttrMaxSurface2DLayeredLayers);
  p.maxSurfaceCubemap = get(cudaDevAttrMaxSurfaceCubemapWidth);
  p.maxSurfaceCubemapLayered[0] = get(cudaDevAttrMaxSurfaceCubemapLayeredWidth);
  p.maxSurfaceCubemapLayered[1] = get(cudaDevAttrMaxSurfaceCubemapLayeredLayers);
  p.surfaceAlignment = get_size(cudaDevAttrSurfaceAlignment);
  p.concurrentKernels = get(cudaDevAttrConcurrentKernels);
  p.ECCEnabled = get(cudaDevAttrEccEnabled);
  p.pciBusID = get(cudaDevAttrPciBusId);
  p.pciDeviceID = get(cudaDevAttrPciDeviceId);
  p.pciDomainID = get(cudaDevAttrPciDomainId);
  p.tccDriver = get(cudaDevAttrTccDriver);
  p.asyncEngineCount = get(cudaDevAttrAsyncEngineCount);
  p.unifiedAddressing = get(cudaDevAttrUnifiedAddressing);
  p.memoryBusWidth = gpu_model().memory_bus_width;
  p.l2CacheSize = gpu_model().l2_cache;
  p.persistingL2CacheMaxSize = get(cudaDevAttrMaxPersistingL2CacheSize);
  p.maxThreadsPerMultiProcessor = gpu_model().threads;
  p.streamPrioritiesSupported = get(cudaDevAttrStreamPrioritiesSupported);
  p.globalL1CacheSupported = get(cudaDevAttrGlobalL1CacheSupported);
  p.localL1CacheSupported = get(cudaDevAttrLocalL1CacheSupported);
  p.sharedMemPerMultiprocessor = get_size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
  p.regsPerMultiprocessor = gpu_model().registers;
  p.managedMemory = get(cudaDevAttrManagedMemory);
  p.hostNativeAtomicSupported = get(cudaDevAttrHostNativeAtomicSupported);
  p.pageableMemoryAccess = get(cudaDevAttrPageableMemoryAccess);
  p.concurrentManagedAccess = get(cudaDevAttrConcurrentManagedAccess);
  p.computePreemptionSupported = get(cudaDevAttrComputePreemptionSupported);
  p.canUseHostPointerForRegisteredMem = get(cudaDevAttrCanUseHostPointerForRegisteredMem);
  p.cooperativeLaunch = get(cudaDevAttrCooperativeLaunch);
  p.sharedMemPerBlockOptin = get_size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  p.maxBlocksPerMultiProcessor = gpu_model().blocks;
  p.accessPolicyMaxWindowSize = get(cudaDevAttrMaxAccessPolicyWindowSize);
  p.reservedSharedMemPerBlock = get_size(cudaDevAttrReservedSharedMemoryPerBlock);
  p.hostRegisterSupported = get(cudaDevAttrHostRegisterSupported);
  p.sparseCudaArraySupported = get(cudaDevAttrSparseCudaArraySupported);
  p.hostRegisterReadOnlySupported = get(cudaDevAttrHostRegisterReadOnlySupported);
  p.timelineSemaphoreInteropSupported = get(cudaDevAttrTimelineSemaphoreInteropSupported);
  p.memoryPoolsSupported = get(cudaDevAttrMemoryPoolsSupported);
  p.ipcEventSupported = get(cudaDevAttrIpcEventSupport);
  p.clusterLaunch = get(cudaDevAttrClusterLaunch);
  p.unifiedFunctionPointers = 1;
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
  if (status == Status::success) synchronized("cudaDeviceSynchronize");
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

// Memory.

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return give_memory(pointer, bytes, MemoryKind::device, "cudaMalloc");
}

cudaError_t cudaMallocManaged(void** pointer, std::size_t bytes, unsigned int flags) {
  if (flags != cudaMemAttachGlobal && flags != cudaMemAttachHost)
    return result(cudaErrorInvalidValue);
  if (bytes == 0) return result(cudaErrorInvalidValue);
  return give_memory(pointer, bytes, MemoryKind::managed, "cudaMallocManaged");
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return give_memory(pointer, bytes, MemoryKind::pinned, "cudaMallocHost");
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned int flags) {
  constexpr unsigned kKnown =
      cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
  if ((flags & ~kKnown) != 0) return result(cudaErrorInvalidValue);
  return give_memory(pointer, bytes, MemoryKind::pinned, "cudaHostAlloc");
}

cudaError_t cudaMallocPitch(void** pointer, std::size_t* pitch, std::size_t width,
                            std::size_t rows) {
  constexpr std::size_t kAlignment = 512;
  if (pitch == nullptr || width > SIZE_MAX - kAlignment) return result(cudaErrorInvalidValue);
  *pitch = (width + kAlignment - 1) / kAlignment * kAlignment;
  if (*pitch != 0 && rows > SIZE_MAX / *pitch) return result(cudaErrorInvalidValue);
  return give_memory(pointer, *pitch * rows, MemoryKind::device, "cudaMallocPitch");
}

cudaError_t cudaFree(void* pointer) {
  return take_memory_back(pointer, false);
}
cudaError_t cudaFreeHost(void* pointer) {
  return take_memory_back(pointer, true);
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
  refuse("cudaIpcGetMemHandle", "emulated device memory is not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenMemHandle(void**, cudaIpcMemHandle_t, unsigned int) {
  refuse("cudaIpcOpenMemHandle", "emulated device memory is not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcCloseMemHandle(void*) {
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t*, cudaEvent_t) {
  refuse("cudaIpcGetEventHandle", "emulated events are not shared between processes");
  return result(cudaErrorNotSupported);
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t*, cudaIpcEventHandle_t) {
  refuse("cudaIpcOpenEventHandle", "emulated events are not shared between processes");
  return result(cudaErrorNotSupported);
}

// Streams.

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int priority) {
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(create_stream(reinterpret_cast<void**>(stream), flags, priority));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, kLeastPriority);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, kLeastPriority);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return result(destroy_stream(stream));
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  if (priority == nullptr) return result(cudaErrorInvalidValue);
  StreamState state{};
  const Status status = stream_state(stream, state);
  *priority = state.priority;
  return result(status);
}

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned int* flags) {
  if (flags == nullptr) return result(cudaErrorInvalidValue);
  StreamState state{};
  const Status status = stream_state(stream, state);
  *flags = state.flags;
  return result(status);
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long* id) {
  if (id == nullptr) return result(cudaErrorInvalidValue);
  StreamState state{};
  const Status status = stream_state(stream, state);
  *id = state.number;
  return result(status);
}

#if CUDART_VERSION >= 12080
cudaError_t cudaStreamGetDevice(cudaStream_t stream, int* device) {
  if (device == nullptr) return result(cudaErrorInvalidValue);
  StreamState state{};
  const Status status = stream_state(stream, state);
  *device = state.device;
  return result(status);
}
#endif

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  Status status = use_runtime();
  if (status == Status::success) status = synchronize_stream(stream);
  if (status == Status::success) synchronized("cudaStreamSynchronize");
  return result(status);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const Status status = use_runtime();
  return result(status == Status::success ? synchronize_stream(stream) : status);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  if (flags > cudaEventWaitExternal) return result(cudaErrorInvalidValue);
  return result(wait_event(stream, event, flags == cudaEventWaitExternal));
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned int flags) {
  if (callback == nullptr || flags != 0) return result(cudaErrorInvalidValue);
  bool captures = false;
  const Status status = capturing(stream, captures);
  if (status != Status::success) return result(status);
  if (captures) return result(cudaErrorStreamCaptureUnsupported);
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (function == nullptr) return result(cudaErrorInvalidValue);
  return result(submit(stream, "cudaLaunchHostFunc",
                       {NodeKind::host, nullptr, [function, data] { function(data); }, {}}));
}

// Events.

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(create_event(reinterpret_cast<void**>(event), flags));
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return result(destroy_event(event));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  if (flags > cudaEventRecordExternal) return result(cudaErrorInvalidValue);
  return result(record_event(event, stream, flags == cudaEventRecordExternal));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return result(query_event(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Status status = query_event(event);
  if (status == Status::success) synchronized("cudaEventSynchronize");
  return result(status);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (milliseconds == nullptr) return result(cudaErrorInvalidValue);
  return result(elapsed_time(start, end, *milliseconds));
}

// Kernels. Functions that begin with two underscores are called by nvcc's host code. Their
// prototypes are in crt/host_runtime.h, which no wheel contains.

struct FatbinWrapper {
  unsigned magic;
  unsigned version;
  const void* fatbin;
  void* unused;
};
constexpr unsigned kFatbinWrapperMagic = 0x466243B1;

// NOLINTBEGIN(bugprone-reserved-identifier): the functions' names are the CUDA runtime's.

void** __cudaRegisterFatBinary(void* wrapper) {
  const auto* const fatbin = static_cast<const FatbinWrapper*>(wrapper);
  const bool known = fatbin != nullptr && fatbin->magic == kFatbinWrapperMagic;
  return reinterpret_cast<void**>(add_module(known ? fatbin->fatbin : nullptr));
}

void __cudaRegisterFatBinaryEnd(void**) {}

void __cudaUnregisterFatBinary(void** handle) {
  remove_module(reinterpret_cast<Module*>(handle));
}

char __cudaInitModule(void**) {
  return 1;
}

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, void*,
                            void*, void*, void*, int*) {
  register_kernel(reinterpret_cast<Module*>(handle), host, name);
}

void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t bytes,
                       int, int) {
  (void)register_variable(reinterpret_cast<Module*>(handle), host, name, bytes);
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, void* stream) {
  configurations.push_back({grid, block, shared, stream});
  return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  if (configurations.empty()) return result(cudaErrorMissingConfiguration);
  const Configuration last = configurations.back();
  configurations.pop_back();
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<void**>(stream) = last.stream;
  return cudaSuccess;
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  *kernel = reinterpret_cast<cudaKernel_t>(kernel_handle(host));
  return *kernel != nullptr ? cudaSuccess : result(cudaErrorInvalidDeviceFunction);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return launch_kernel(kernel_of(kernel), grid, block, arguments, shared, stream, false,
                       "cudaLaunchKernel");
}
// NOLINTEND(bugprone-reserved-identifier)

cudaError_t cudaGetKernel(cudaKernel_t* kernel, const void* host) {
  return kernel == nullptr ? result(cudaErrorInvalidValue) : __cudaGetKernel(kernel, host);
}

cudaError_t cudaGetFuncBySymbol(cudaFunction_t* function, const void* host) {
  if (function == nullptr) return result(cudaErrorInvalidValue);
  *function = reinterpret_cast<cudaFunction_t>(kernel_handle(host));
  return *function != nullptr ? cudaSuccess : result(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t shared, cudaStream_t stream) {
  return launch_kernel(kernel_of(function), grid, block, arguments, shared, stream, false,
                       "cudaLaunchKernel");
}

cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                        void** arguments, std::size_t shared, cudaStream_t stream) {
  return launch_kernel(kernel_of(function), grid, block, arguments, shared, stream, true,
                       "cudaLaunchCooperativeKernel");
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function,
                                void** arguments) {
  Kernel* const kernel = kernel_of(function);
  if (config == nullptr) return result(cudaErrorInvalidValue);
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  Launch launched{{config->gridDim.x, config->gridDim.y, config->gridDim.z},
                  {config->blockDim.x, config->blockDim.y, config->blockDim.z},
                  config->dynamicSmemBytes,
                  false,
                  {0, 0, 0},
                  arguments};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const cudaLaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == cudaLaunchAttributeCooperative)
      launched.cooperative = attribute.val.cooperative != 0;
    if (attribute.id == cudaLaunchAttributeClusterDimension) {
      launched.cluster[0] = attribute.val.clusterDim.x;
      launched.cluster[1] = attribute.val.clusterDim.y;
      launched.cluster[2] = attribute.val.clusterDim.z;
    }
  }
  const Status status = use_runtime();
  if (status != Status::success) return result(status);
  return result(launch(kernel, launched, config->stream, "cudaLaunchKernelExC"));
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  if (attributes == nullptr) return result(cudaErrorInvalidValue);
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  KernelFigures figures{};
  const Status status = figures_of(kernel, figures);
  if (status != Status::success) return result(status);
  *attributes = {};
  attributes->sharedSizeBytes = figures.static_shared;
  attributes->constSizeBytes = figures.constant;
  attributes->localSizeBytes = figures.local;
  attributes->maxThreadsPerBlock = figures.max_threads;
  attributes->numRegs = figures.registers;
  attributes->ptxVersion = figures.ptx_version;
  attributes->binaryVersion = figures.binary_version;
  attributes->maxDynamicSharedSizeBytes = figures.dynamic_shared_limit;
  attributes->preferredShmemCarveout = figures.carveout;
  attributes->nonPortableClusterSizeAllowed = figures.non_portable_clusters ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return set_kernel_attribute(kernel_of(function), attribute, value);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  return set_kernel_attribute(kernel_of(kernel), attribute, value);
}
#endif

cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const Kernel* const kernel = kernel_of(function);
  if (name == nullptr) return result(cudaErrorInvalidValue);
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  *name = kernel->name;
  return cudaSuccess;
}

cudaError_t cudaFuncSetCacheConfig(const void* function, cudaFuncCache) {
  return kernel_of(function) != nullptr ? cudaSuccess : result(cudaErrorInvalidDeviceFunction);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                   const void* function,
                                                                   int threads, std::size_t shared,
                                                                   unsigned int flags) {
  if (blocks == nullptr || flags > cudaOccupancyDisableCachingOverride)
    return result(cudaErrorInvalidValue);
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction);
  return result(active_blocks(kernel, threads, shared, *blocks));
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, std::size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared,
                                                                cudaOccupancyDefault);
}

// Libraries: modules loaded at run time.

#if CUDART_VERSION >= 12080
cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void* code, cudaJitOption*, void**,
                                unsigned int, cudaLibraryOption*, void**, unsigned int) {
  if (library == nullptr || code == nullptr) return result(cudaErrorInvalidValue);
  Module* module = nullptr;
  const Status status = load_module(code, module);
  if (status != Status::success) return result(status);
  *library = reinterpret_cast<cudaLibrary_t>(module);
  return cudaSuccess;
}

cudaError_t cudaLibraryLoadFromFile(cudaLibrary_t* library, const char* file, cudaJitOption* jit,
                                    void** jit_values, unsigned int jit_count,
                                    cudaLibraryOption* options, void** option_values,
                                    unsigned int option_count) {
  if (library == nullptr || file == nullptr) return result(cudaErrorInvalidValue);
  const std::vector<char> content = content_of(file);
  constexpr std::size_t kMinLength = 64;  // Size in bytes of the smallest image header.
  if (content.size() < kMinLength) return result(cudaErrorFileNotFound);
  return cudaLibraryLoadData(library, content.data(), jit, jit_values, jit_count, options,
                             option_values, option_count);
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  Module* const module = live_module(library);
  if (module == nullptr) return result(cudaErrorInvalidResourceHandle);
  remove_module(module);
  return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char* name) {
  if (kernel == nullptr || name == nullptr) return result(cudaErrorInvalidValue);
  Kernel* found = nullptr;
  const Status status = find_kernel(live_module(library), name, found);
  *kernel = reinterpret_cast<cudaKernel_t>(found);
  return result(status);
}
#endif

}  // extern "C"
