#include "gpu/libraries/device_families.h"

namespace optrace {
namespace {

constexpr std::array kFamilies = {
    DeviceFamily{.name = "cudart",
                 .stem = "libcudart",
                 .prefixes = {"cuda", "__cuda"},
                 .headers = {"cuda_runtime_api.h"},
                 .status = "cudaError_t",
                 .success = "cudaSuccess",
                 .failure = "cudaErrorNotSupported",
                 .wheel = "cuda-runtime",
                 .own_header = "gpu/emulated/libraries/cuda/cudart.h"},
    DeviceFamily{.name = "cuda",
                 .stem = "libcuda",
                 .prefixes = {"cu"},
                 .headers = {"cuda.h", "cudaProfiler.h"},
                 .status = "CUresult",
                 .success = "CUDA_SUCCESS",
                 .failure = "CUDA_ERROR_NOT_SUPPORTED",
                 .wheel = "cuda-runtime",
                 .always = "libcuda.so.1"},
    // No wheel that PyTorch requires contains nvml.h; the emulation declares the functions itself.
    DeviceFamily{.name = "nvml",
                 .stem = "libnvidia-ml",
                 .prefixes = {"nvml"},
                 .headers = {"nvml.h"},
                 .status = "nvmlReturn_t",
                 .success = "NVML_SUCCESS",
                 .failure = "NVML_ERROR_NOT_SUPPORTED",
                 .wheel = "",
                 .always = "libnvidia-ml.so.1"},
    DeviceFamily{.name = "cudnn",
                 .stem = "libcudnn",
                 .prefixes = {"cudnn"},
                 .headers = {"cudnn.h"},
                 .status = "cudnnStatus_t",
                 .success = "CUDNN_STATUS_SUCCESS",
                 .failure = "CUDNN_STATUS_NOT_SUPPORTED",
                 .wheel = "cudnn",
                 .own_header = "gpu/emulated/libraries/cudnn/cudnn_descriptors.h"},
    DeviceFamily{.name = "cublaslt",
                 .stem = "libcublasLt",
                 .prefixes = {"cublasLt"},
                 .headers = {"cublasLt.h"},
                 .status = "cublasStatus_t",
                 .success = "CUBLAS_STATUS_SUCCESS",
                 .failure = "CUBLAS_STATUS_NOT_SUPPORTED",
                 .wheel = "cublas"},
    DeviceFamily{.name = "cublas",
                 .stem = "libcublas",
                 .prefixes = {"cublas"},
                 .headers = {"cublas_v2.h", "cublasXt.h"},
                 .status = "cublasStatus_t",
                 .success = "CUBLAS_STATUS_SUCCESS",
                 .failure = "CUBLAS_STATUS_NOT_SUPPORTED",
                 .wheel = "cublas",
                 .own_header = "gpu/emulated/libraries/cublas/cublas_handle.h"},
    DeviceFamily{.name = "cusolver",
                 .stem = "libcusolver",
                 .prefixes = {"cusolver"},
                 .headers = {"cusolverDn.h", "cusolverSp.h", "cusolverRf.h"},
                 .status = "cusolverStatus_t",
                 .success = "CUSOLVER_STATUS_SUCCESS",
                 .failure = "CUSOLVER_STATUS_NOT_SUPPORTED",
                 .wheel = "cusolver"},
    DeviceFamily{.name = "cusparselt",
                 .stem = "libcusparseLt",
                 .prefixes = {"cusparseLt"},
                 .headers = {"cusparseLt.h"},
                 .status = "cusparseStatus_t",
                 .success = "CUSPARSE_STATUS_SUCCESS",
                 .failure = "CUSPARSE_STATUS_NOT_SUPPORTED",
                 .wheel = "cusparselt"},
    DeviceFamily{.name = "cusparse",
                 .stem = "libcusparse",
                 .prefixes = {"cusparse"},
                 .headers = {"cusparse.h"},
                 .status = "cusparseStatus_t",
                 .success = "CUSPARSE_STATUS_SUCCESS",
                 .failure = "CUSPARSE_STATUS_NOT_SUPPORTED",
                 .wheel = "cusparse"},
    DeviceFamily{.name = "cufft",
                 .stem = "libcufft",
                 .prefixes = {"cufft"},
                 .headers = {"cufft.h", "cufftXt.h"},
                 .status = "cufftResult",
                 .success = "CUFFT_SUCCESS",
                 .failure = "CUFFT_NOT_SUPPORTED",
                 .wheel = "cufft"},
    DeviceFamily{.name = "curand",
                 .stem = "libcurand",
                 .prefixes = {"curand"},
                 .headers = {"curand.h"},
                 .status = "curandStatus_t",
                 .success = "CURAND_STATUS_SUCCESS",
                 .failure = "CURAND_STATUS_INTERNAL_ERROR",
                 .wheel = "curand"},
    DeviceFamily{.name = "nccl",
                 .stem = "libnccl",
                 .prefixes = {"nccl"},
                 .headers = {"nccl.h"},
                 .status = "ncclResult_t",
                 .success = "ncclSuccess",
                 .failure = "ncclInternalError",
                 .wheel = "nccl",
                 .own_header = "gpu/emulated/libraries/nccl_communicators.h"},
    DeviceFamily{.name = "cupti",
                 .stem = "libcupti",
                 .prefixes = {"cupti"},
                 .headers = {"cupti.h"},
                 .status = "CUptiResult",
                 .success = "CUPTI_SUCCESS",
                 .failure = "CUPTI_ERROR_NOT_SUPPORTED",
                 .wheel = "cuda-cupti"},
    DeviceFamily{.name = "cufile",
                 .stem = "libcufile",
                 .prefixes = {"cuFile"},
                 .headers = {"cufile.h"},
                 .status = "CUfileError_t",
                 .success = "CUfileError_t{CU_FILE_SUCCESS, CUDA_SUCCESS}",
                 .failure = "CUfileError_t{CU_FILE_DRIVER_NOT_INITIALIZED, CUDA_SUCCESS}",
                 .wheel = "cufile"},
    DeviceFamily{.name = "nvshmem",
                 .stem = "libnvshmem_host",
                 .prefixes = {"nvshmem"},
                 .headers = {"nvshmem_host.h"},
                 .status = "int",
                 .success = "0",
                 .failure = "1",
                 .wheel = "nvshmem"},
};

bool starts_name(std::string_view function, std::string_view prefix) {
  if (prefix.empty() || !function.starts_with(prefix) || function.size() == prefix.size())
    return false;
  const char next = function[prefix.size()];
  return next == '_' || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9') ||
         // For example nvshmemx_malloc, nvshmemid_init_status.
         prefix == "nvshmem";
}

}  // namespace

std::span<const DeviceFamily> device_families() {
  return kFamilies;
}

const DeviceFamily* device_family(std::string_view name) {
  for (const DeviceFamily& family : kFamilies)
    if (family.name == name) return &family;
  return nullptr;
}

const DeviceFamily* family_of_library(std::string_view soname) {
  const std::string_view stem = soname.substr(0, soname.find(".so"));
  for (const DeviceFamily& family : kFamilies)
    if (family.stem == stem) return &family;
  return nullptr;
}

const DeviceFamily* family_of_function(std::string_view function) {
  const DeviceFamily* found = nullptr;
  std::size_t longest = 0;
  for (const DeviceFamily& family : kFamilies) {
    for (const std::string_view prefix : family.prefixes) {
      if (prefix.size() > longest && starts_name(function, prefix)) {
        longest = prefix.size();
        found = &family;
      }
    }
  }
  return found;
}

}  // namespace optrace
