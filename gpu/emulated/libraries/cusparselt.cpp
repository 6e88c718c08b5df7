// cuSPARSELt on emulated devices: products of matrices in which every second element is zero.
// Descriptors are memory of the caller, in which the data needed later is stored.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include <cusparseLt.h>

#include "gpu/emulated/device/call_values.h"
#include "gpu/emulated/device/cuda_data_types.h"
#include "gpu/emulated/device/device.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/device/enum_names.h"

namespace {

using optrace::emulated::Call;
using optrace::emulated::put;
using optrace_ops::JsonText;

// Identifies an initialized descriptor and its kind in the caller's memory.
enum class Mark : std::uint64_t {
  handle = 0x6f70747261636501,
  matrix,
  product,
  algorithm,
  plan,
};

struct Handle {
  static constexpr Mark kMark = Mark::handle;
  Mark mark = kMark;
};

struct Matrix {
  static constexpr Mark kMark = Mark::matrix;
  Mark mark = kMark;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t leading_dimension = 0;
  cudaDataType type = CUDA_R_16F;
  cusparseOrder_t order = CUSPARSE_ORDER_ROW;
  bool sparse = false;
};

struct Product {
  static constexpr Mark kMark = Mark::product;
  Mark mark = kMark;
  cusparseOperation_t operation_a = CUSPARSE_OPERATION_NON_TRANSPOSE;
  cusparseOperation_t operation_b = CUSPARSE_OPERATION_NON_TRANSPOSE;
  Matrix a;
  Matrix b;
  Matrix c;
  Matrix d;
  cusparseComputeType compute = CUSPARSE_COMPUTE_32F;
  bool bias = false;
};

struct Algorithm {
  static constexpr Mark kMark = Mark::algorithm;
  Mark mark = kMark;
  int id = 0;
  int iterations = 0;
  int split_k = 1;
  cusparseLtSplitKMode_t split_mode = CUSPARSELT_SPLIT_K_MODE_ONE_KERNEL;
  int split_buffers = 0;
};

struct Plan {
  static constexpr Mark kMark = Mark::plan;
  Mark mark = kMark;
  Product product;
  Algorithm algorithm;
};

// The number of algorithms of the real library is not documented; the emulation has one.
constexpr int kAlgorithms = 1;

template <typename Kept, typename Opaque>
void keep(Opaque* opaque, const Kept& kept) {
  static_assert(sizeof(Kept) <= sizeof opaque->data);
  std::memcpy(opaque->data, &kept, sizeof kept);
}

/// Returns false for a descriptor that was not initialized.
template <typename Kept, typename Opaque>
bool read(const Opaque* opaque, Kept& kept) {
  if (opaque == nullptr) return false;
  static_assert(sizeof(Kept) <= sizeof opaque->data);
  std::memcpy(static_cast<void*>(&kept), opaque->data, sizeof kept);
  return kept.mark == Kept::kMark;
}

cusparseStatus_t refuse(const char* function, cusparseStatus_t status, const std::string& why) {
  optrace::emulated::record_refusal(
      function, why, status, optrace::emulated::enumerator_name<cusparseStatus_t, 0, 8>(status));
  return status;
}

bool made(const cusparseLtHandle_t* handle) {
  Handle kept;
  return read(handle, kept);
}

void put_matrix(JsonText& json, const char* key, const Matrix& matrix) {
  json.key(key), json.open('{');
  put(json, "rows", matrix.rows), put(json, "columns", matrix.columns);
  put(json, "leading_dimension", matrix.leading_dimension);
  put(json, "order", matrix.order == CUSPARSE_ORDER_ROW ? "row" : "column");
  put(json, "type", optrace::emulated::data_type_name(matrix.type));
  if (matrix.sparse) put(json, "sparsity", "50%");
  json.close('}');
}

const char* operation_name(cusparseOperation_t operation) {
  return operation == CUSPARSE_OPERATION_NON_TRANSPOSE ? "none" : "transpose";
}

const char* compute_name(cusparseComputeType compute) {
  switch (compute) {
    case CUSPARSE_COMPUTE_32I:
      return "int32";
    case CUSPARSE_COMPUTE_16F:
      return "float16";
    case CUSPARSE_COMPUTE_32F:
      return "float32";
  }
  return "other";
}

bool is_float8(cudaDataType type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

/// Implements cusparseLtDenseDescriptorInit and cusparseLtStructuredDescriptorInit: checks sizes
/// and types.
cusparseStatus_t make_matrix(const char* function, const cusparseLtHandle_t* handle,
                             cusparseLtMatDescriptor_t* opaque, const Matrix& matrix,
                             std::uint32_t alignment) {
  if (!made(handle) || opaque == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  constexpr std::uint32_t kAlignment = 16;
  if (alignment == 0 || alignment % kAlignment != 0)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED,
                  "an alignment of " + std::to_string(alignment) + " bytes");
  if (optrace::emulated::data_type(matrix.type) == nullptr)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED, "the data type");
  constexpr int kFirstWithFloat8 = 89;
  if (is_float8(matrix.type) && optrace::emulated::arch() < kFirstWithFloat8)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED, "float8 below sm_89");
  // Sizes are multiples of 16 for 8-bit types, 8 for 16-bit, 4 for 32-bit; twice that for a sparse
  // matrix.
  const auto bytes = static_cast<std::int64_t>(optrace::emulated::data_type_bytes(matrix.type));
  const std::int64_t multiple = std::int64_t{kAlignment} / bytes * (matrix.sparse ? 2 : 1);
  if (matrix.rows <= 0 || matrix.columns <= 0 || matrix.rows % multiple != 0 ||
      matrix.columns % multiple != 0)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED,
                  std::to_string(matrix.rows) + " by " + std::to_string(matrix.columns) +
                      ", no multiples of " + std::to_string(multiple));
  keep(opaque, matrix);
  return CUSPARSE_STATUS_SUCCESS;
}

template <typename Value>
cusparseStatus_t set(const void* data, std::size_t size, Value& value) {
  if (data == nullptr || size != sizeof value) return CUSPARSE_STATUS_INVALID_VALUE;
  std::memcpy(&value, data, sizeof value);
  return CUSPARSE_STATUS_SUCCESS;
}

template <typename Value>
cusparseStatus_t get(void* data, std::size_t size, const Value& value) {
  if (data == nullptr || size != sizeof value) return CUSPARSE_STATUS_INVALID_VALUE;
  std::memcpy(data, &value, sizeof value);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtInit(cusparseLtHandle_t* handle) {
  if (handle == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  constexpr int kFirstPart = 80;
  if (optrace::emulated::arch() < kFirstPart)
    return refuse("cusparseLtInit", CUSPARSE_STATUS_ARCH_MISMATCH, "below sm_80");
  keep(handle, Handle{});
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API
cusparseLtDestroy(const cusparseLtHandle_t* handle) {
  return made(handle) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API
cusparseLtGetVersion(const cusparseLtHandle_t* /*handle*/, int* version) {
  if (version == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *version = optrace::emulated::reported_version("cusparselt", CUSPARSELT_VERSION);
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtDenseDescriptorInit(
    const cusparseLtHandle_t* handle, cusparseLtMatDescriptor_t* matDescr, int64_t rows,
    int64_t cols, int64_t ld, uint32_t alignment, cudaDataType valueType, cusparseOrder_t order) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.columns = cols;
  matrix.leading_dimension = ld;
  matrix.type = valueType;
  matrix.order = order;
  return make_matrix("cusparseLtDenseDescriptorInit", handle, matDescr, matrix, alignment);
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtStructuredDescriptorInit(
    const cusparseLtHandle_t* handle, cusparseLtMatDescriptor_t* matDescr, int64_t rows,
    int64_t cols, int64_t ld, uint32_t alignment, cudaDataType valueType, cusparseOrder_t order,
    cusparseLtSparsity_t /*sparsity*/) {
  Matrix matrix;
  matrix.rows = rows;
  matrix.columns = cols;
  matrix.leading_dimension = ld;
  matrix.type = valueType;
  matrix.order = order;
  matrix.sparse = true;
  return make_matrix("cusparseLtStructuredDescriptorInit", handle, matDescr, matrix, alignment);
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API
cusparseLtMatDescriptorDestroy(const cusparseLtMatDescriptor_t* matDescr) {
  Matrix matrix;
  return read(matDescr, matrix) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtSpMMACompressedSize2(
    const cusparseLtHandle_t* handle, const cusparseLtMatDescriptor_t* sparseMatDescr,
    size_t* compressedSize, size_t* compressedBufferSize) {
  Matrix matrix;
  if (!made(handle) || !read(sparseMatDescr, matrix) || !matrix.sparse ||
      compressedSize == nullptr || compressedBufferSize == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  // Half of the elements and their positions. PyTorch uses 9/16 of the dense size, or 10/16 for
  // 8-bit elements (aten/src/ATen/native/sparse/cuda/cuSPARSELtOps.cpp).
  const std::size_t bytes = optrace::emulated::data_type_bytes(matrix.type);
  const std::size_t dense =
      static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.columns) * bytes;
  *compressedSize = dense * (bytes == 1 ? 10 : 9) / 16;
  *compressedBufferSize = dense;
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtSpMMACompress2(
    const cusparseLtHandle_t* handle, const cusparseLtMatDescriptor_t* sparseMatDescr,
    int isSparseA, cusparseOperation_t op, const void* /*d_dense*/, void* /*d_compressed*/,
    void* /*d_compressed_buffer*/, cudaStream_t /*stream*/) {
  Matrix matrix;
  if (!made(handle) || !read(sparseMatDescr, matrix)) return CUSPARSE_STATUS_INVALID_VALUE;
  Call call("cusparseLtSpMMACompress2", "library");
  put_matrix(call.json(), "matrix", matrix);
  put(call.json(), "operand", isSparseA != 0 ? "a" : "b");
  put(call.json(), "operation", operation_name(op));
  call.record();
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulDescriptorInit(
    const cusparseLtHandle_t* handle, cusparseLtMatmulDescriptor_t* matmulDescr,
    cusparseOperation_t opA, cusparseOperation_t opB, const cusparseLtMatDescriptor_t* matA,
    const cusparseLtMatDescriptor_t* matB, const cusparseLtMatDescriptor_t* matC,
    const cusparseLtMatDescriptor_t* matD, cusparseComputeType computeType) {
  Product product;
  if (!made(handle) || matmulDescr == nullptr || !read(matA, product.a) || !read(matB, product.b) ||
      !read(matC, product.c) || !read(matD, product.d))
    return CUSPARSE_STATUS_INVALID_VALUE;
  if (product.a.sparse == product.b.sparse)
    return refuse("cusparseLtMatmulDescriptorInit", CUSPARSE_STATUS_NOT_SUPPORTED,
                  "just one of the two matrices must be sparse");
  if (product.a.type != product.b.type)
    return refuse("cusparseLtMatmulDescriptorInit", CUSPARSE_STATUS_NOT_SUPPORTED,
                  "matrices of two types");
  const bool integers = product.a.type == CUDA_R_8I;
  if (integers != (computeType == CUSPARSE_COMPUTE_32I))
    return refuse("cusparseLtMatmulDescriptorInit", CUSPARSE_STATUS_NOT_SUPPORTED,
                  std::string(optrace::emulated::data_type_name(product.a.type)) + " computed in " +
                      compute_name(computeType));
  product.operation_a = opA;
  product.operation_b = opB;
  product.compute = computeType;
  keep(matmulDescr, product);
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulDescSetAttribute(
    const cusparseLtHandle_t* handle, cusparseLtMatmulDescriptor_t* matmulDescr,
    cusparseLtMatmulDescAttribute_t matmulAttribute, const void* data, size_t /*dataSize*/) {
  Product product;
  if (!made(handle) || !read(matmulDescr, product) || data == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  // The other attributes (activations, strides, scaling) only affect the kernel, which doesn't run.
  if (matmulAttribute == CUSPARSELT_MATMUL_BIAS_POINTER) {
    product.bias = true;
    keep(matmulDescr, product);
  }
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulAlgSelectionInit(
    const cusparseLtHandle_t* handle, cusparseLtMatmulAlgSelection_t* algSelection,
    const cusparseLtMatmulDescriptor_t* matmulDescr, cusparseLtMatmulAlg_t /*alg*/) {
  Product product;
  if (!made(handle) || algSelection == nullptr || !read(matmulDescr, product))
    return CUSPARSE_STATUS_INVALID_VALUE;
  keep(algSelection, Algorithm{});
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulAlgSetAttribute(
    const cusparseLtHandle_t* handle, cusparseLtMatmulAlgSelection_t* algSelection,
    cusparseLtMatmulAlgAttribute_t attribute, const void* data, size_t dataSize) {
  Algorithm algorithm;
  if (!made(handle) || !read(algSelection, algorithm)) return CUSPARSE_STATUS_INVALID_VALUE;
  cusparseStatus_t status = CUSPARSE_STATUS_NOT_SUPPORTED;
  switch (attribute) {
    case CUSPARSELT_MATMUL_ALG_CONFIG_ID:
      status = set(data, dataSize, algorithm.id);
      if (status == CUSPARSE_STATUS_SUCCESS && (algorithm.id < 0 || algorithm.id >= kAlgorithms))
        return refuse(
            "cusparseLtMatmulAlgSetAttribute", CUSPARSE_STATUS_INVALID_VALUE,
            "algorithm " + std::to_string(algorithm.id) + " of " + std::to_string(kAlgorithms));
      break;
    case CUSPARSELT_MATMUL_SEARCH_ITERATIONS:
      status = set(data, dataSize, algorithm.iterations);
      break;
    case CUSPARSELT_MATMUL_SPLIT_K:
      status = set(data, dataSize, algorithm.split_k);
      break;
    case CUSPARSELT_MATMUL_SPLIT_K_MODE:
      status = set(data, dataSize, algorithm.split_mode);
      break;
    case CUSPARSELT_MATMUL_SPLIT_K_BUFFERS:
      status = set(data, dataSize, algorithm.split_buffers);
      break;
    default:
      break;
  }
  if (status == CUSPARSE_STATUS_SUCCESS) keep(algSelection, algorithm);
  return status;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulAlgGetAttribute(
    const cusparseLtHandle_t* handle, const cusparseLtMatmulAlgSelection_t* algSelection,
    cusparseLtMatmulAlgAttribute_t attribute, void* data, size_t dataSize) {
  Algorithm algorithm;
  if (!made(handle) || !read(algSelection, algorithm)) return CUSPARSE_STATUS_INVALID_VALUE;
  switch (attribute) {
    case CUSPARSELT_MATMUL_ALG_CONFIG_ID:
      return get(data, dataSize, algorithm.id);
    case CUSPARSELT_MATMUL_ALG_CONFIG_MAX_ID:
      return get(data, dataSize, kAlgorithms);
    case CUSPARSELT_MATMUL_SEARCH_ITERATIONS:
      return get(data, dataSize, algorithm.iterations);
    case CUSPARSELT_MATMUL_SPLIT_K:
      return get(data, dataSize, algorithm.split_k);
    case CUSPARSELT_MATMUL_SPLIT_K_MODE:
      return get(data, dataSize, algorithm.split_mode);
    case CUSPARSELT_MATMUL_SPLIT_K_BUFFERS:
      return get(data, dataSize, algorithm.split_buffers);
    default:
      return CUSPARSE_STATUS_NOT_SUPPORTED;
  }
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API
cusparseLtMatmulPlanInit(const cusparseLtHandle_t* handle, cusparseLtMatmulPlan_t* plan,
                         const cusparseLtMatmulDescriptor_t* matmulDescr,
                         const cusparseLtMatmulAlgSelection_t* algSelection) {
  Plan made_plan;
  if (!made(handle) || plan == nullptr || !read(matmulDescr, made_plan.product) ||
      !read(algSelection, made_plan.algorithm))
    return CUSPARSE_STATUS_INVALID_VALUE;
  keep(plan, made_plan);
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API
cusparseLtMatmulPlanDestroy(const cusparseLtMatmulPlan_t* plan) {
  Plan kept;
  return read(plan, kept) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulGetWorkspace(
    const cusparseLtHandle_t* handle, const cusparseLtMatmulPlan_t* plan, size_t* workspaceSize) {
  Plan kept;
  if (!made(handle) || !read(plan, kept) || workspaceSize == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  // Space for one result for each additional part of the sum.
  const Matrix& result = kept.product.d;
  *workspaceSize = static_cast<std::size_t>(std::max(kept.algorithm.split_k - 1, 0)) *
                   static_cast<std::size_t>(result.rows) *
                   static_cast<std::size_t>(result.columns) *
                   optrace::emulated::data_type_bytes(CUDA_R_32F);
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmulSearch(
    const cusparseLtHandle_t* handle, cusparseLtMatmulPlan_t* plan, const void* /*alpha*/,
    const void* /*d_A*/, const void* /*d_B*/, const void* /*beta*/, const void* /*d_C*/,
    void* /*d_D*/, void* /*workspace*/, cudaStream_t* /*streams*/, int32_t /*numStreams*/) {
  Plan kept;
  if (!made(handle) || !read(plan, kept)) return CUSPARSE_STATUS_INVALID_VALUE;
  // The search compares times, which don't exist here, so the only algorithm is kept.
  Call call("cusparseLtMatmulSearch", "host_read");
  put(call.json(), "what", "times of the algorithms");
  call.record();
  return CUSPARSE_STATUS_SUCCESS;
}

OPTRACE_DEVICE_EXPORT cusparseStatus_t CUSPARSELT_API cusparseLtMatmul(
    const cusparseLtHandle_t* handle, const cusparseLtMatmulPlan_t* plan, const void* /*alpha*/,
    const void* d_A, const void* d_B, const void* /*beta*/, const void* /*d_C*/, void* d_D,
    void* /*workspace*/, cudaStream_t* /*streams*/, int32_t /*numStreams*/) {
  Plan kept;
  if (!made(handle) || !read(plan, kept) || d_A == nullptr || d_B == nullptr || d_D == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  Call call("cusparseLtMatmul", "library");
  JsonText& json = call.json();
  put(json, "operation_a", operation_name(kept.product.operation_a));
  put(json, "operation_b", operation_name(kept.product.operation_b));
  put_matrix(json, "a", kept.product.a), put_matrix(json, "b", kept.product.b);
  put_matrix(json, "c", kept.product.c), put_matrix(json, "d", kept.product.d);
  put(json, "compute", compute_name(kept.product.compute));
  put(json, "bias", kept.product.bias);
  put(json, "algorithm", kept.algorithm.id);
  put(json, "split_k", kept.algorithm.split_k);
  call.record();
  return CUSPARSE_STATUS_SUCCESS;
}

}  // extern "C"
