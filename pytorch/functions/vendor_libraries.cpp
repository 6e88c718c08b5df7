#include "pytorch/functions/vendor_libraries.h"

#include <algorithm>
#include <cstddef>

#include "platform/text/glob.h"

namespace optrace {
namespace {

using enum Visibility;
using enum VendorLibrary::Memory;

constexpr std::nullopt_t kElsewhere = std::nullopt;

// The functions are those that PyTorch calls: aten/src/ATen/native (mkldnn/, mkl/, CPUBlas.cpp,
// quantized/cpu/, xnnpack/, cudnn/), aten/src/ATen/cuda and torch/csrc/distributed.
const VendorLibrary kLibraries[] = {
    // Its internal functions are hidden; the implementation that it chose is noted at its entry
    // point.
    {.name = "oneDNN",
     .memory = host,
     .functions = {{"dnnl_primitive_execute", always, kCProbes},
                   {"dnnl_sgemm", always, kCProbes},
                   {"dnnl_*gemm*", always},
                   {"dnnl::impl::*", hidden, probes_with("execute")},
                   {"dnnl*", hidden},
                   {"ideep::*", if_leading, kCppProbes}},
     .bookkeeping = {"ideep::tensor*", "ideep::attr_t*", "ideep::data_type*", "ideep::format_tag*",
                     "ideep::engine*", "ideep::stream*", "ideep::*::prepare*", "ideep::*::*_desc",
                     "ideep::*desc*", "ideep::%", "dnnl::*get_*", "dnnl::*set_*", "dnnl::memory*",
                     "dnnl::engine*", "dnnl::stream*", "dnnl::*desc*"}},
    {.name = "MKL",
     .memory = host,
     .files = {"libmkl*"},
     .functions = {{"mkl_blas_*", if_leading},  // Called by the functions with Fortran's names.
                   {"mkl_lapack_*", if_leading},
                   {"mkl_sparse_*", always, kCProbes},
                   {"mkl_*", always},
                   {"MKL_*", always},
                   {"DftiCompute*", always, kCProbes},
                   {"Dfti*", always},
                   // Vector math: vmsSin, vmdExp, ...
                   {"vms@*", always, kCProbes},
                   {"vmd@*", always, kCProbes},
                   {"vmc@*", always, kCProbes},
                   {"vmz@*", always, kCProbes},
                   {"vms%", always},
                   {"vmd%", always},
                   {"vmc%", always},
                   {"vmz%", always}},
     .bookkeeping = {"Dfti*Descriptor*", "Dfti*Set*", "Dfti*Get*", "mkl_get*", "mkl_set*",
                     "mkl_sparse_*create*", "mkl_sparse_*export*", "mkl_sparse_destroy",
                     "mkl_sparse_order", "MKL_Set*", "MKL_Get*"}},
    {.name = "BLAS",
     .memory = host,
     .files = {"libopenblas*"},
     .functions = {{"cblas_*gemm*", always, kCProbes}, {"cblas_*", always}}},
    {.name = "FBGEMM",
     .memory = host,
     .functions = {{"fbgemm::fbgemmPacked*", always, probes_with("12fbgemmPacked")},
                   {"fbgemm::fbgemmConv*", always, probes_with("10fbgemmConv")},
                   {"fbgemm::cblas_gemm_compute*", always, probes_with("18cblas_gemm_compute")},
                   {"fbgemm::GenerateEmbeddingSpMDM*", always,
                    probes_with("22GenerateEmbeddingSpMDM")},
                   {"fbgemm::Quantize*", always, probes_with("8QuantizeI")},
                   {"fbgemm::Dequantize*", always, probes_with("10DequantizeI")},
                   {"fbgemm::*", always}},
     .bookkeeping = {"fbgemm::%Supported*"}},
    {.name = "XNNPACK",
     .memory = host,
     .functions = {{"xnn_run_operator*", always, kCProbes},
                   {"xnn_invoke_runtime", always, kCProbes},
                   {"xnn_*", always}},
     .bookkeeping = {"xnn_create*", "xnn_delete*", "xnn_initialize", "xnn_setup*", "xnn_reshape*"}},
    {.name = "NNPACK",
     .memory = host,
     .functions = {{"nnp_convolution_*", always, kCProbes}, {"nnp_*", always}},
     .bookkeeping = {"nnp_initialize"}},
    {.name = "QNNPACK",
     .memory = host,
     .functions = {{"pytorch_qnnp_run_operator", always, kCProbes},
                   {"pytorch_q*", always},
                   {"qnnpack::%", always, kCppProbes},
                   {"qnnpack::*", always}}},
    {.name = "", .memory = host, .functions = {{"LAPACKE_*", always}, {"Sleef_*", always}}},
    {.name = "cuDNN",
     .memory = device,
     .files = {"libcudnn*"},
     .functions = {{"cudnn*", always, kCProbes}}},
    {.name = "cuBLASLt",
     .memory = device,
     .files = {"libcublasLt*"},
     .functions = {{"cublasLt*", always, kCProbes}}},
    {.name = "cuBLAS",
     .memory = device,
     .files = {"libcublas*"},
     .functions = {{"cublas*", always, kCProbes}}},
    {.name = "cuSOLVER",
     .memory = device,
     .files = {"libcusolver*"},
     .functions = {{"cusolver*", always, kCProbes}}},
    {.name = "cuSPARSE",
     .memory = device,
     .files = {"libcusparse*"},
     .functions = {{"cusparse*", always, kCProbes}}},
    {.name = "cuFFT",
     .memory = device,
     .files = {"libcufft*"},
     .functions = {{"cufft*", always, kCProbes}}},
    {.name = "cuRAND",
     .memory = device,
     .files = {"libcurand*"},
     .functions = {{"curand*", always, kCProbes}}},
    {.name = "NCCL",
     .memory = device,
     .files = {"libnccl*"},
     .functions = {{"nccl*", always, kCProbes}},
     .bookkeeping = {"nccl*Get*", "ncclComm*"}},
    {.name = "CUDA",
     .memory = device,
     .files = {"libcudart*", "libcuda.so*"},
     // Names that nvcc calls, so that no source has them.
     .functions = {{"cudaLaunchKernel", always, kCProbes},
                   {"cudaLaunchKernelExC", always, kCProbes},
                   {"cudaLaunchCooperativeKernel", always, kCProbes},
                   {"cudaLaunch*", always, kCProbes},
                   {"__cudaLaunch*", always, kCProbes},
                   {"cudaGraphLaunch*", kElsewhere, kCProbes},
                   {"cudaMemcpy*", kElsewhere, kCProbes},
                   {"cudaMemset*", kElsewhere, kCProbes},
                   {"cudaStreamSynchronize*", kElsewhere, kCProbes},
                   {"cudaEventSynchronize*", kElsewhere, kCProbes},
                   {"cudaDeviceSynchronize*", kElsewhere, kCProbes},
                   {"cuLaunch*", kElsewhere, kCProbes},
                   {"cuMemcpy*", kElsewhere, kCProbes},
                   {"cuMemset*", kElsewhere, kCProbes},
                   {"cuModuleLoad*", kElsewhere, kCProbes},
                   // The calls that fail most often; shown only where they fail.
                   {"cudaMalloc*", kElsewhere, kCProbes},
                   {"cudaHostAlloc", kElsewhere, kCProbes},
                   {"cudaSetDevice", kElsewhere, kCProbes},
                   {"cuMemCreate", kElsewhere, kCProbes},
                   {"cuda*", kElsewhere},
                   {"__cuda*", kElsewhere},
                   {"cu*", kElsewhere}},
     // The first rows are those of all of CUDA's libraries.
     .bookkeeping = {"cu*Create*", "cu*Destroy*", "cu*Set*", "cu*Get*", "cu*_bufferSize*",
                     "cu*BufferSize*", "cu*Error*", "cu*Initialize*", "cu*Finalize*",
                     "cudaEventQuery", "cudaEventRecord*", "cudaStreamIsCapturing",
                     "cudaStreamQuery", "cudaMalloc*", "cudaFree*", "cudaFunc*", "cudaOccupancy*"},
     .hidden = {"cudaMalloc*", "cudaHostAlloc", "cudaSetDevice", "cuMemCreate"}},
    {.name = "NVRTC",
     .memory = device,
     .files = {"libnvrtc*"},
     .functions = {{"nvrtcCompileProgram*", kElsewhere, kCProbes}, {"nvrtc*", kElsewhere}}},
    // Fortran's names, sgemm_, dgesv_, and MKL's other spelling of them, SGEMM. The probed ones are
    // in fortran_routines.h.
    {.name = "BLAS/LAPACK", .memory = host, .functions = {{"%_", always}, {"^", always}}},
};

bool matches_any(std::string_view name, std::initializer_list<std::string_view> patterns) {
  return std::ranges::any_of(
      patterns, [&](std::string_view pattern) { return matches_name_glob(name, pattern); });
}

}  // namespace

std::span<const VendorLibrary> vendor_libraries() {
  return kLibraries;
}

std::optional<Visibility> visibility_in_library_file(std::string_view name, std::string_view file) {
  for (const VendorLibrary& library : kLibraries)
    if (matches_any(file, library.files))
      return matches_any(name, library.hidden) ? Visibility::hidden : Visibility::always;
  return std::nullopt;
}

std::optional<Visibility> visibility_of_library_call(std::string_view name) {
  for (const VendorLibrary& library : kLibraries)
    for (const LibraryFunctions& functions : library.functions)
      if (functions.visibility && matches_name_glob(name, functions.names))
        return functions.visibility;
  return std::nullopt;
}

std::string_view library_name(std::string_view name) {
  for (const VendorLibrary& library : kLibraries)
    for (const LibraryFunctions& functions : library.functions)
      if (matches_name_glob(name, functions.names)) return library.name;
  return {};
}

bool is_host_library(std::string_view library) {
  const auto* const found = std::ranges::find(kLibraries, library, &VendorLibrary::name);
  return found != std::end(kLibraries) && found->memory == host && !library.empty();
}

bool is_library_function(std::string_view name) {
  return std::ranges::any_of(kLibraries, [&](const VendorLibrary& library) {
    return std::ranges::find(library.functions, name, &LibraryFunctions::names) !=
           library.functions.end();
  });
}

bool is_library_bookkeeping(std::string_view name) {
  return std::ranges::any_of(kLibraries, [&](const VendorLibrary& library) {
    return matches_any(name, library.bookkeeping);
  });
}

std::optional<std::string_view> onednn_implementation(std::string_view name) {
  constexpr std::string_view kScope = "dnnl::impl::";
  // dnnl::impl's own `execute` functions forward to an implementation, which is in cpu:: or gpu::.
  if (!name.starts_with("dnnl::impl::cpu::") && !name.starts_with("dnnl::impl::gpu::"))
    return std::nullopt;
  const std::size_t end = name.rfind("::execute");
  if (end == std::string_view::npos || end < kScope.size()) return std::nullopt;
  return name.substr(kScope.size(), end - kScope.size());
}

bool launches_kernel(std::string_view name) {
  return name.starts_with("cudaLaunch") || name.starts_with("__cudaLaunch") ||
         name.starts_with("cuLaunch");
}

bool waits_for_device(std::string_view name) {
  return matches_name_glob(name, "cu*Synchronize");
}

}  // namespace optrace
