// The CUDA driver: modules, kernels and their launches.

#include <cstdint>
#include <cstring>
#include <vector>

#include <cuda.h>
#include <unistd.h>

#include "gpu/arguments/call_values.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/kernels/device_kernels.h"
#include "gpu/emulated/libraries/cuda/cuda_result.h"
#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {
namespace {

static_assert(static_cast<int>(KernelAttribute::dynamic_shared) ==
              CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
static_assert(static_cast<int>(KernelAttribute::carveout) ==
              CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT);
static_assert(static_cast<int>(KernelAttribute::non_portable_clusters) ==
              CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);

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
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  return result(set_kernel_attribute(kernel, static_cast<KernelAttribute>(attribute), value));
}

CUresult launch_kernel(CUfunction function, const Launch& launched, CUstream stream,
                       const char* name) {
  Kernel* const kernel = kernel_of(function);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const Status status = use_devices();
  return result(status == Status::success ? launch(kernel, launched, stream, name) : status);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

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
  if (::access(path, R_OK) != 0) return outcome(CUDA_ERROR_FILE_NOT_FOUND);
  const std::vector<char> content = read_image(path);
  return outcome(content.size() < kMinImageSize ? CUDA_ERROR_INVALID_IMAGE
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
  if (gpu_model().major < 9) {
    record_refusal("cuTensorMapEncodeTiled", "tensor maps take compute capability 9.0");
    return outcome(CUDA_ERROR_NOT_SUPPORTED);
  }
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
