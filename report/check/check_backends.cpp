#include "report/check/check_backends.h"

#include <algorithm>
#include <array>
#include <string>

#include "platform/text/ascii_text.h"
#include "platform/text/glob.h"
#include "pytorch/functions/layers.h"
#include "pytorch/functions/vendor_libraries.h"

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

// Functions of BLAS (netlib.org/blas, and Intel's additions). The form of the name does not
// distinguish them from LAPACK's.
constexpr std::string_view kFortran = "BLAS/LAPACK";
constexpr auto kBlas = std::to_array<std::string_view>(
    {"asum",   "axpy",       "copy",  "dot",  "dotc",       "dotu", "gbmv", "gemm",
     "gemm3m", "gemm_batch", "gemmt", "gemv", "gemv_batch", "ger",  "gerc", "geru",
     "hemm",   "hemv",       "her",   "her2", "her2k",      "herk", "nrm2", "rot",
     "rotg",   "sbmv",       "scal",  "spmv", "swap",       "symm", "symv", "syr",
     "syr2",   "syr2k",      "syrk",  "trmm", "trmv",       "trsm", "trsv", "trsm_batch"});

bool is_blas(std::string_view name) {
  const std::string function = lower(name.substr(0, name.find_last_not_of('_') + 1));
  return !function.empty() &&
         std::ranges::find(kBlas, std::string_view(function).substr(1)) != kBlas.end();
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
  const std::string wanted = lower(backend);
  return wanted.starts_with("cu") || wanted == "nccl";
}

bool is_work_of(const Frame& frame, std::string_view backend) {
  // The functions that choose a kind of attention have its name.
  if (frame.name.starts_with("sdp::")) return false;
  const std::string wanted = lower(backend);
  return std::ranges::any_of(kBackends, [&](const Backend& row) {
    if (row.name != wanted) return false;
    if (!row.function.empty() && !matches_name_glob(frame.name, row.function)) return false;
    if (row.library.empty()) return true;
    if (frame.layer != Layer::library || frame.detail->library != row.library ||
        is_library_bookkeeping(frame.name))
      return false;
    return row.library != kFortran || is_blas(frame.name) == (row.name == "blas");
  });
}

}  // namespace optrace
