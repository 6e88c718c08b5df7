// The emulated libcublas: matrix products, whose arguments are recorded in a common form,
// and functions that return results to the host. The other functions are generated and record their
// arguments by name.

#include <algorithm>
#include <cstdint>
#include <string>

#include <cuComplex.h>
#include <cublas_v2.h>
#include <cuda_fp16.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cublas_names.h"
#include "gpu/arguments/cuda_data_types.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/libraries/cublas/cublas_handle.h"
#include "gpu/emulated/memory/device_contents.h"

namespace optrace::emulated {
namespace {

std::string math_name(cublasMath_t math) {
  // The mode may be combined with flags for reductions.
  constexpr int kModes = 15;
  const auto mode = static_cast<cublasMath_t>(math & kModes);
  std::string name = short_name(enumerator_name<cublasMath_t, 0, 16>(mode), "CUBLAS_", mode);
  if ((math & CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION) != 0)
    name += ", no reduced-precision reduction";
  return name;
}

struct Matrix {
  cudaDataType type;
  int ld;
  std::int64_t stride = 0;  ///< Distance between consecutive matrices of a strided batch.
};

/// The product C = op(A) op(B) of size m by n by k.
struct Product {
  cublasOperation_t transa;
  cublasOperation_t transb;
  int m;
  int n;
  int k;
  Matrix a;
  Matrix b;
  Matrix c;
  int batch = 1;
  const char* batch_kind = nullptr;  ///< "strided", or "pointers" to each matrix.
  std::string compute = {};
  int algorithm = CUBLAS_GEMM_DEFAULT;
  void* output = nullptr;  ///< Unless batch_kind is "pointers".
  /// For batch_kind "pointers": one address per matrix, in device memory.
  void* const* outputs = nullptr;
};

/// Marks the output as zeros.
void discard_output(const Product& product) {
  const std::size_t element = data_type_bytes(product.c.type);
  const Columns columns{static_cast<std::size_t>(product.m) * element,
                        static_cast<std::size_t>(product.n),
                        static_cast<std::size_t>(product.c.ld) * element};
  const auto batch = static_cast<std::size_t>(product.batch);
  if (product.output != nullptr)
    discard_matrices(product.output, columns, batch,
                     static_cast<std::size_t>(product.c.stride) * element);
  Allocation allocation = {};
  if (product.outputs == nullptr ||
      !find_allocation(static_cast<const void*>(product.outputs), allocation))
    return;
  for (std::size_t i = 0; i < batch; ++i) discard_matrices(product.outputs[i], columns, 1, 0);
}

void put_matrix(JsonText& json, const char* key, const Matrix& matrix, bool strided) {
  json.key(key);
  json.open('{');
  put(json, "type", data_type_name(matrix.type));
  put(json, "ld", matrix.ld);
  if (strided) put(json, "stride", matrix.stride);
  json.close('}');
}

/// Returns the reason why the arguments are invalid, according to the reference of cublas<t>gemm();
/// empty if they are valid.
std::string invalid(const Product& product) {
  if (product.m < 0 || product.n < 0 || product.k < 0 || product.batch < 0)
    return "a negative size";
  if (product.a.ld < std::max(1, product.transa == CUBLAS_OP_N ? product.m : product.k))
    return "lda is too small";
  if (product.b.ld < std::max(1, product.transb == CUBLAS_OP_N ? product.k : product.n))
    return "ldb is too small";
  if (product.c.ld < std::max(1, product.m)) return "ldc is too small";
  return {};
}

/// Returns the reason why cuBLAS does not support the combination, or an empty text. 8-bit integers
/// need leading dimensions that are multiples of 4 (cublasGemmEx's reference); only cuBLASLt
/// supports fp8.
std::string unsupported(const Product& product) {
  constexpr int kAligned = 4;
  const auto is_fp8 = [](cudaDataType type) {
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
  };
  if (is_fp8(product.a.type) || is_fp8(product.b.type)) return "cuBLAS takes no fp8: cuBLASLt does";
  if (product.a.type == CUDA_R_8I && (product.a.ld % kAligned != 0 || product.b.ld % kAligned != 0))
    return "int8 needs leading dimensions that are multiples of 4";
  return {};
}

cublasStatus_t multiply(const char* function, cublasHandle_t handle, const Product& product) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (const std::string why = invalid(product); !why.empty())
    return refuse(function, CUBLAS_STATUS_INVALID_VALUE, why);
  if (const std::string why = unsupported(product); !why.empty())
    return refuse(function, CUBLAS_STATUS_NOT_SUPPORTED, why);
  discard_output(product);
  Call call(function, "library");
  JsonText& json = call.json();
  put(json, "m", product.m);
  put(json, "n", product.n);
  put(json, "k", product.k);
  put(json, "transa", operation_name(product.transa));
  put(json, "transb", operation_name(product.transb));
  const bool strided = product.batch_kind != nullptr && product.batch_kind[0] == 's';
  put_matrix(json, "a", product.a, strided);
  put_matrix(json, "b", product.b, strided);
  put_matrix(json, "c", product.c, strided);
  put(json, "batch", product.batch);
  if (product.batch_kind != nullptr) put(json, "batch_kind", product.batch_kind);
  if (!product.compute.empty()) {
    put(json, "compute_type", product.compute);
    put(json, "algorithm", product.algorithm);
  }
  put(json, "math_mode", math_name(handle->math_mode));
  call.record();
  return CUBLAS_STATUS_SUCCESS;
}

/// Handles a vector operation with a scalar result. In device pointer mode the device writes the
/// result; in host pointer mode the host waits for it. It is then zero, because nothing is
/// computed.
template <typename Result>
cublasStatus_t reduce(const char* function, cublasHandle_t handle, int n, cudaDataType type,
                      Result* result, std::size_t bytes = sizeof(Result)) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (result == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const bool on_host = handle->pointer_mode == CUBLAS_POINTER_MODE_HOST;
  Call call(function, "library");
  put(call.json(), "n", n);
  put(call.json(), "type", data_type_name(type));
  put(call.json(), "result", on_host ? "host" : "device");
  call.record();
  if (!on_host) {
    discard_contents(result, bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  std::fill_n(reinterpret_cast<char*>(result), bytes, '\0');
  Call read(function, "host_read");
  put(read.json(), "bytes", bytes);
  read.record();
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Element>
void* const* pointers(Element* const* each) {
  return reinterpret_cast<void* const*>(each);
}

}  // namespace
}  // namespace optrace::emulated

// NOLINTBEGIN(bugprone-macro-parentheses): the macros' arguments are types and parts of names.
using namespace optrace::emulated;

extern "C" {

cublasStatus_t cublasGetProperty(libraryPropertyType type, int* value) {
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  return reported_property("cublas", CUBLAS_VERSION, type, *value) ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  handle->workspace = 0;  // Back to the library's own workspace, as documented.
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void* workspace, size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  constexpr std::uintptr_t kAligned = 256;
  if (reinterpret_cast<std::uintptr_t>(workspace) % kAligned != 0)
    return CUBLAS_STATUS_INVALID_VALUE;
  handle->workspace = bytes;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetSmCountTarget(cublasHandle_t handle, int count) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (count < 0 || count > gpu_model().multiprocessors) return CUBLAS_STATUS_INVALID_VALUE;
  handle->multiprocessors = count;
  return CUBLAS_STATUS_SUCCESS;
}
// Matrix products.

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void*, const void*,
                            cudaDataType a, int lda, const void*, cudaDataType b, int ldb,
                            const void*, void* output, cudaDataType c, int ldc,
                            cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  Product product{transa, transb, m, n, k, {a, lda}, {b, ldb}, {c, ldc}};
  product.compute = compute_name(compute);
  product.algorithm = algorithm;
  product.output = output;
  return multiply("cublasGemmEx", handle, product);
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void*, const void*, cudaDataType a, int lda,
                                          long long stride_a, const void*, cudaDataType b, int ldb,
                                          long long stride_b, const void*, void* output,
                                          cudaDataType c, int ldc, long long stride_c, int batch,
                                          cublasComputeType_t compute, cublasGemmAlgo_t algorithm) {
  Product product{transa, transb, m, n, k, {a, lda}, {b, ldb}, {c, ldc}};
  product.a.stride = stride_a;
  product.b.stride = stride_b;
  product.c.stride = stride_c;
  product.batch = batch;
  product.batch_kind = "strided";
  product.compute = compute_name(compute);
  product.algorithm = algorithm;
  product.output = output;
  return multiply("cublasGemmStridedBatchedEx", handle, product);
}

cublasStatus_t cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                   cublasOperation_t transb, int m, int n, int k, const void*,
                                   const void* const*, cudaDataType a, int lda, const void* const*,
                                   cudaDataType b, int ldb, const void*, void* const* outputs,
                                   cudaDataType c, int ldc, int batch, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm) {
  Product product{transa, transb, m, n, k, {a, lda}, {b, ldb}, {c, ldc}};
  product.batch = batch;
  product.batch_kind = "pointers";
  product.compute = compute_name(compute);
  product.algorithm = algorithm;
  product.outputs = outputs;
  return multiply("cublasGemmBatchedEx", handle, product);
}

cublasStatus_t cublasSgemmEx(cublasHandle_t handle, cublasOperation_t transa,
                             cublasOperation_t transb, int m, int n, int k, const float*,
                             const void*, cudaDataType a, int lda, const void*, cudaDataType b,
                             int ldb, const float*, void* output, cudaDataType c, int ldc) {
  Product product{transa, transb, m, n, k, {a, lda}, {b, ldb}, {c, ldc}};
  product.output = output;
  return multiply("cublasSgemmEx", handle, product);
}

// Functions for one data type: letter, C type of an element, cudaDataType, and suffix.
#define OPTRACE_GEMM(letter, element, type, ending)                                                \
  cublasStatus_t cublas##letter##gemm##ending(                                                     \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,     \
      int k, const element*, const element*, int lda, const element*, int ldb, const element*,     \
      element* output, int ldc) {                                                                  \
    Product product{transa, transb, m, n, k, {type, lda}, {type, ldb}, {type, ldc}};               \
    product.output = output;                                                                       \
    return multiply("cublas" #letter "gemm" #ending, handle, product);                             \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemmStridedBatched(                                               \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,     \
      int k, const element*, const element*, int lda, long long stride_a, const element*, int ldb, \
      long long stride_b, const element*, element* output, int ldc, long long stride_c,            \
      int batch) {                                                                                 \
    Product product{transa, transb, m, n, k, {type, lda}, {type, ldb}, {type, ldc}};               \
    product.a.stride = stride_a;                                                                   \
    product.b.stride = stride_b;                                                                   \
    product.c.stride = stride_c;                                                                   \
    product.batch = batch;                                                                         \
    product.batch_kind = "strided";                                                                \
    product.output = output;                                                                       \
    return multiply("cublas" #letter "gemmStridedBatched", handle, product);                       \
  }                                                                                                \
  cublasStatus_t cublas##letter##gemmBatched(                                                      \
      cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,     \
      int k, const element*, const element* const*, int lda, const element* const*, int ldb,       \
      const element*, element* const* outputs, int ldc, int batch) {                               \
    Product product{transa, transb, m, n, k, {type, lda}, {type, ldb}, {type, ldc}};               \
    product.batch = batch;                                                                         \
    product.batch_kind = "pointers";                                                               \
    product.outputs = pointers(outputs);                                                           \
    return multiply("cublas" #letter "gemmBatched", handle, product);                              \
  }

OPTRACE_GEMM(S, float, CUDA_R_32F, _v2)
OPTRACE_GEMM(D, double, CUDA_R_64F, _v2)
OPTRACE_GEMM(C, cuComplex, CUDA_C_32F, _v2)
OPTRACE_GEMM(Z, cuDoubleComplex, CUDA_C_64F, _v2)
OPTRACE_GEMM(H, __half, CUDA_R_16F, )
#undef OPTRACE_GEMM

// Reductions of vectors.

#define OPTRACE_DOT(name, element, type)                                                      \
  cublasStatus_t name(cublasHandle_t handle, int n, const element*, int, const element*, int, \
                      element* result) {                                                      \
    return reduce(#name, handle, n, type, result);                                            \
  }
OPTRACE_DOT(cublasSdot_v2, float, CUDA_R_32F)
OPTRACE_DOT(cublasDdot_v2, double, CUDA_R_64F)
OPTRACE_DOT(cublasCdotu_v2, cuComplex, CUDA_C_32F)
OPTRACE_DOT(cublasCdotc_v2, cuComplex, CUDA_C_32F)
OPTRACE_DOT(cublasZdotu_v2, cuDoubleComplex, CUDA_C_64F)
OPTRACE_DOT(cublasZdotc_v2, cuDoubleComplex, CUDA_C_64F)
#undef OPTRACE_DOT

cublasStatus_t cublasDotEx(cublasHandle_t handle, int n, const void*, cudaDataType x, int,
                           const void*, cudaDataType, int, void* result, cudaDataType result_type,
                           cudaDataType) {
  return reduce("cublasDotEx", handle, n, x, static_cast<char*>(result),
                data_type_bytes(result_type));
}

#define OPTRACE_NORM(name, element, result_type, type)                                          \
  cublasStatus_t name(cublasHandle_t handle, int n, const element*, int, result_type* result) { \
    return reduce(#name, handle, n, type, result);                                              \
  }
OPTRACE_NORM(cublasSnrm2_v2, float, float, CUDA_R_32F)
OPTRACE_NORM(cublasDnrm2_v2, double, double, CUDA_R_64F)
OPTRACE_NORM(cublasScnrm2_v2, cuComplex, float, CUDA_C_32F)
OPTRACE_NORM(cublasDznrm2_v2, cuDoubleComplex, double, CUDA_C_64F)
OPTRACE_NORM(cublasSasum_v2, float, float, CUDA_R_32F)
OPTRACE_NORM(cublasDasum_v2, double, double, CUDA_R_64F)
OPTRACE_NORM(cublasScasum_v2, cuComplex, float, CUDA_C_32F)
OPTRACE_NORM(cublasDzasum_v2, cuDoubleComplex, double, CUDA_C_64F)
OPTRACE_NORM(cublasIsamax_v2, float, int, CUDA_R_32F)
OPTRACE_NORM(cublasIdamax_v2, double, int, CUDA_R_64F)
OPTRACE_NORM(cublasIcamax_v2, cuComplex, int, CUDA_C_32F)
OPTRACE_NORM(cublasIzamax_v2, cuDoubleComplex, int, CUDA_C_64F)
OPTRACE_NORM(cublasIsamin_v2, float, int, CUDA_R_32F)
OPTRACE_NORM(cublasIdamin_v2, double, int, CUDA_R_64F)
OPTRACE_NORM(cublasIcamin_v2, cuComplex, int, CUDA_C_32F)
OPTRACE_NORM(cublasIzamin_v2, cuDoubleComplex, int, CUDA_C_64F)
#undef OPTRACE_NORM

// Batched solvers. Except for getrf, `info` is in host memory and reports if the arguments are
// valid.

/// Reports success for every matrix of the batch. `info` is in device memory.
static void fill_with_success(int* info, int batch) {
  Allocation allocation = {};
  if (batch > 0 && find_allocation(info, allocation)) std::fill_n(info, batch, 0);
}

static cublasStatus_t factor(const char* function, cublasHandle_t handle, int n, cudaDataType type,
                             int lda, const int* pivots, int* info, int batch) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (n < 0 || batch < 0 || lda < std::max(1, n))
    return refuse(function, CUBLAS_STATUS_INVALID_VALUE, "a negative size, or lda is too small");
  fill_with_success(info, batch);
  Call call(function, "library");
  put(call.json(), "n", n);
  put(call.json(), "type", data_type_name(type));
  put(call.json(), "lda", lda);
  put(call.json(), "pivots", pivots != nullptr);
  put(call.json(), "batch", batch);
  call.record();
  return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t solve(const char* function, cublasHandle_t handle, cublasOperation_t trans,
                            int m, int n, int nrhs, cudaDataType type, int lda, int ldb, int* info,
                            int batch) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (info == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *info = 0;
  Call call(function, "library");
  put(call.json(), "m", m);
  put(call.json(), "n", n);
  put(call.json(), "nrhs", nrhs);
  put(call.json(), "trans", operation_name(trans));
  put(call.json(), "type", data_type_name(type));
  put(call.json(), "lda", lda);
  put(call.json(), "ldb", ldb);
  put(call.json(), "batch", batch);
  call.record();
  return CUBLAS_STATUS_SUCCESS;
}

#define OPTRACE_BATCHED_SOLVERS(letter, element, type)                                             \
  cublasStatus_t cublas##letter##getrfBatched(cublasHandle_t handle, int n, element* const*,       \
                                              int lda, int* pivots, int* info, int batch) {        \
    return factor("cublas" #letter "getrfBatched", handle, n, type, lda, pivots, info, batch);     \
  }                                                                                                \
  cublasStatus_t cublas##letter##getrsBatched(                                                     \
      cublasHandle_t handle, cublasOperation_t trans, int n, int nrhs, const element* const*,      \
      int lda, const int*, element* const*, int ldb, int* info, int batch) {                       \
    return solve("cublas" #letter "getrsBatched", handle, trans, n, n, nrhs, type, lda, ldb, info, \
                 batch);                                                                           \
  }                                                                                                \
  cublasStatus_t cublas##letter##gelsBatched(                                                      \
      cublasHandle_t handle, cublasOperation_t trans, int m, int n, int nrhs, element* const*,     \
      int lda, element* const*, int ldc, int* info, int* infos, int batch) {                       \
    if (infos != nullptr) fill_with_success(infos, batch);                                         \
    return solve("cublas" #letter "gelsBatched", handle, trans, m, n, nrhs, type, lda, ldc, info,  \
                 batch);                                                                           \
  }                                                                                                \
  cublasStatus_t cublas##letter##geqrfBatched(cublasHandle_t handle, int m, int n,                 \
                                              element* const*, int lda, element* const*,           \
                                              int* info, int batch) {                              \
    return solve("cublas" #letter "geqrfBatched", handle, CUBLAS_OP_N, m, n, 0, type, lda, lda,    \
                 info, batch);                                                                     \
  }

OPTRACE_BATCHED_SOLVERS(S, float, CUDA_R_32F)
OPTRACE_BATCHED_SOLVERS(D, double, CUDA_R_64F)
OPTRACE_BATCHED_SOLVERS(C, cuComplex, CUDA_C_32F)
OPTRACE_BATCHED_SOLVERS(Z, cuDoubleComplex, CUDA_C_64F)
#undef OPTRACE_BATCHED_SOLVERS

}  // extern "C"
// NOLINTEND(bugprone-macro-parentheses)
