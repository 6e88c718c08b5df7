#include "report/check_backends.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "report/json_fields.h"
#include "report/layers.h"

namespace optrace {
namespace {

struct Backend {
  std::string_view name;
  std::string_view library;   ///< As a frame's detail has it; empty: told by its functions alone.
  std::string_view function;  ///< Pattern; empty: none.
};

// A backend may have several rows. The kinds of attention are ATen's (sdp_utils.cpp).
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
    {"blas", "MKL", ""},
    {"lapack", "BLAS/LAPACK", ""},
    {"fbgemm", "FBGEMM", ""},
    {"xnnpack", "XNNPACK", ""},
    {"qnnpack", "QNNPACK", ""},
    {"nnpack", "NNPACK", ""},
    {"triton", "", "triton_*"},
    {"magma", "", "magma_*"},
    {"cutlass", "", "cutlass*"},
    {"flash", "", "*flash_attention*"},
    {"flash", "", "*flash_fwd_*"},
    {"efficient", "", "*efficient_attention*"},
    {"math", "", "*_scaled_dot_product_attention_math*"},
});

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
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

bool is_work_of(const Frame& frame, std::string_view backend) {
  const std::string wanted = lower(backend);
  return std::ranges::any_of(kBackends, [&](const Backend& row) {
    if (row.name != wanted) return false;
    if (!row.library.empty())
      return frame.layer == Layer::library && text_at(frame.detail, "library") == row.library &&
             !is_library_bookkeeping(frame.name);
    return matches_pattern(frame.name, row.function);
  });
}

}  // namespace optrace
