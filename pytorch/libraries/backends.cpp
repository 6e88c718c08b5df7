#include "pytorch/libraries/backends.h"

#include <algorithm>
#include <array>
#include <string>

#include "platform/text/ascii_text.h"
#include "platform/text/glob.h"
#include "pytorch/functions/fortran_routines.h"

namespace optrace {
namespace {

struct Backend {
  std::string_view name;
  std::string_view library;   ///< Name as in a frame's detail; empty: only the function matters.
  std::string_view function;  ///< Pattern of the function's name; empty: any.
};

// A backend may have several rows. The kinds of attention are those of ATen (sdp_utils.cpp).
constexpr auto kBackends = std::to_array<Backend>({
    {"cudnn", "cuDNN", ""},
    {"cublas", "cuBLAS", ""},
    {"cublaslt", "cuBLASLt", ""},
    {"cusolver", "cuSOLVER", ""},
    {"cusparse", "cuSPARSE", ""},
    {"cufft", "cuFFT", ""},
    {"curand", "cuRAND", ""},
    {"nccl", "NCCL", ""},
    {"onednn", "oneDNN", ""},
    {"mkldnn", "oneDNN", ""},
    {"mkl", "MKL", ""},
    {"blas", "BLAS", ""},
    {"blas", "BLAS/LAPACK", ""},
    {"blas", "MKL", "mkl_blas*"},
    {"lapack", "BLAS/LAPACK", ""},
    {"lapack", "MKL", "mkl_lapack*"},
    {"fbgemm", "FBGEMM", ""},
    {"xnnpack", "XNNPACK", ""},
    {"qnnpack", "QNNPACK", ""},
    {"nnpack", "NNPACK", ""},
    {"triton", "", "triton_*"},
    {"magma", "", "magma_*"},
    {"cutlass", "", "*cutlass*"},
    {"flash", "", "*flash_attention*"},
    {"flash", "", "*flash_fwd_*"},
    {"efficient", "", "*efficient_attention*"},
    {"math", "", "*_scaled_dot_product_attention_math*"},
});

// The vendor's name for functions that are either backend's.
constexpr std::string_view kFortran = "BLAS/LAPACK";

bool is_blas(std::string_view name) {
  const std::string function = lower(name.substr(0, name.find_last_not_of('_') + 1));
  if (function.empty()) return false;
  const FortranRoutine* const routine = fortran_routine(std::string_view(function).substr(1));
  return routine != nullptr && routine->blas;
}

}  // namespace

bool is_backend(std::string_view name) {
  return std::ranges::find(kBackends, lower(name), &Backend::name) != kBackends.end();
}

std::vector<std::string_view> backend_names() {
  std::vector<std::string_view> names;
  for (const Backend& backend : kBackends)
    if (names.empty() || names.back() != backend.name) names.push_back(backend.name);
  return names;
}

bool is_of_cuda(std::string_view backend) {
  const std::string lowered = lower(backend);
  return lowered.starts_with("cu") || lowered == "nccl";
}

bool is_function_of(std::string_view backend, std::string_view function, std::string_view library) {
  const std::string lowered = lower(backend);
  return std::ranges::any_of(kBackends, [&](const Backend& row) {
    if (row.name != lowered) return false;
    if (!row.function.empty() && !matches_name_glob(function, row.function)) return false;
    if (row.library.empty()) return true;
    if (library != row.library) return false;
    return library != kFortran || is_blas(function) == (row.name == "blas");
  });
}

}  // namespace optrace
