// The CUDA runtime: kernels, their launches, and modules loaded at run time.

#include <cstddef>
#include <vector>

#include <cuda_runtime_api.h>

#include "gpu/emulated/device/device_attributes.h"
#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/libraries/cuda/cudart.h"
#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(KernelAttribute::dynamic_shared) ==
              cudaFuncAttributeMaxDynamicSharedMemorySize);
static_assert(static_cast<int>(KernelAttribute::carveout) ==
              cudaFuncAttributePreferredSharedMemoryCarveout);
static_assert(static_cast<int>(KernelAttribute::non_portable_clusters) ==
              cudaFuncAttributeNonPortableClusterSizeAllowed);

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

cudaError_t set_attribute(Kernel* kernel, cudaFuncAttribute attribute, int value,
                          const char* function = __builtin_FUNCTION()) {
  if (kernel == nullptr) return result(cudaErrorInvalidDeviceFunction, function);
  return result(set_kernel_attribute(kernel, static_cast<KernelAttribute>(attribute), value),
                function);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

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
  return set_attribute(kernel_of(function), attribute, value);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, cudaFuncAttribute attribute,
                                            int value, int device) {
  if (!known_device(device)) return result(cudaErrorInvalidDevice);
  return set_attribute(kernel_of(kernel), attribute, value);
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
  const std::vector<char> content = read_image(file);
  if (content.size() < kMinImageSize) return result(cudaErrorFileNotFound);
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
