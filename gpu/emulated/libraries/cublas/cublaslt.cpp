// The emulated libcublasLt. Descriptors store every attribute that is set and return it. Heuristics
// return algorithms, or refuse combinations that cuBLASLt's reference lists as unsupported.
// Products are recorded with layouts, epilogue, scales and algorithm.
//
// The algorithm ids are specific to the emulation, because the choice of the real heuristics is
// unknown without them. Records contain "heuristic": "emulated".

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>

#include <cublasLt.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cublaslt_product.h"
#include "gpu/arguments/cuda_data_types.h"
#include "gpu/emulated/device/device_versions.h"
#include "gpu/emulated/libraries/cublas/cublas_handle.h"
#include "gpu/emulated/memory/device_contents.h"

namespace optrace::emulated {
namespace {

template <typename Opaque>
const Attributes& of(const Opaque* opaque) {
  return *reinterpret_cast<const Attributes*>(opaque);
}

template <typename Opaque>
cublasStatus_t create(Opaque** opaque, Attributes*& made) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  made = new (std::nothrow) Attributes;
  *opaque = reinterpret_cast<Opaque*>(made);
  return made == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  delete reinterpret_cast<Attributes*>(opaque);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque>
cublasStatus_t set_bytes(Opaque* opaque, int name, const void* value, std::size_t size) {
  if (opaque == nullptr || value == nullptr || size == 0) return CUBLAS_STATUS_INVALID_VALUE;
  const char* const bytes = static_cast<const char*>(value);
  reinterpret_cast<Attributes*>(opaque)->bytes[name].assign(bytes, bytes + size);
  return CUBLAS_STATUS_SUCCESS;
}

template <typename Opaque>
cublasStatus_t get_bytes(const Opaque* opaque, int name, void* value, std::size_t size,
                         std::size_t* written) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto found = of(opaque).bytes.find(name);
  // Not set, and without a known default.
  if (found == of(opaque).bytes.end()) return CUBLAS_STATUS_INVALID_VALUE;
  if (written != nullptr) *written = found->second.size();
  if (size == 0) return written == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
  if (value == nullptr || size != found->second.size()) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, found->second.data(), size);
  return CUBLAS_STATUS_SUCCESS;
}

// Algorithms. Each configuration attribute occupies 4 bytes of the opaque struct.

constexpr int kAlgorithmAttributes =
    static_cast<int>(sizeof(cublasLtMatmulAlgo_t) / sizeof(std::uint32_t));

bool has_attribute(int attribute) {
  return attribute >= 0 && attribute < kAlgorithmAttributes;
}

std::uint32_t configured(const cublasLtMatmulAlgo_t& algorithm, int attribute) {
  std::uint32_t value = 0;
  std::memcpy(&value,
              reinterpret_cast<const char*>(&algorithm) +
                  static_cast<std::size_t>(attribute) * sizeof value,
              sizeof value);
  return value;
}

void configure(cublasLtMatmulAlgo_t& algorithm, int attribute, std::uint32_t value) {
  std::memcpy(
      reinterpret_cast<char*>(&algorithm) + static_cast<std::size_t>(attribute) * sizeof value,
      &value, sizeof value);
}

cublasLtMatmulAlgo_t algorithm_of(int id) {
  cublasLtMatmulAlgo_t algorithm = {};
  configure(algorithm, CUBLASLT_ALGO_CONFIG_ID, static_cast<std::uint32_t>(id));
  configure(algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 1);
  return algorithm;
}

/// Returns the reason why the shapes don't match, or an empty text.
std::string mismatch(const Product& product) {
  const bool b = transposition(product, CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N;
  const Sizes size = sizes(product);
  if ((b ? columns(product.b) : rows(product.b)) != size.k) return "A's and B's inner sizes differ";
  if (rows(product.d) != size.m || columns(product.d) != size.n) return "D's sizes do not fit";
  if (rows(product.c) != size.m || columns(product.c) != size.n) return "C's sizes do not fit";
  return {};
}

constexpr int kBlackwell = 100;
constexpr int kBlackwellEnd = 110;
constexpr int kTensorCoreBytes = 16;
constexpr int kIntegerBytes = 4;

/// From cublasLtMatmul()'s reference, "To use FP8 kernels": compute capability 8.9; 16-byte aligned
/// dimensions; A transposed and B not (except on 10.x); 32-bit computation; A and B not both E5M2.
std::string unsupported_fp8(const Product& product) {
  if (arch() < kAda) return "fp8 needs compute capability 8.9";
  if (type_of(product.a) == CUDA_R_8F_E5M2 && type_of(product.b) == CUDA_R_8F_E5M2)
    return "A and B are both of fp8_e5m2";
  if (get(product.descriptor, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, CUBLAS_COMPUTE_32F) !=
      CUBLAS_COMPUTE_32F)
    return "fp8 computes in 32 bits";
  const bool transposed_only = arch() < kBlackwell || arch() >= kBlackwellEnd;
  if (transposed_only && (transposition(product, CUBLASLT_MATMUL_DESC_TRANSA) != CUBLAS_OP_T ||
                          transposition(product, CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N))
    return "fp8 needs A transposed and B not";
  for (const Attributes* const layout : {&product.a, &product.b, &product.d})
    if (leading_bytes(*layout) % kTensorCoreBytes != 0)
      return "fp8 needs leading dimensions of a multiple of 16 bytes";
  return {};
}

/// From the reference, IMMA kernels with regular order: leading dimensions that are multiples of 4.
/// The reference requires A transposed and B not, but according to PyTorch's test of _int_mm
/// (test/test_linalg.py) A need not be transposed.
std::string unsupported_integers(const Product& product) {
  for (const Attributes* const layout : {&product.a, &product.b})
    if (leading_bytes(*layout) % kIntegerBytes != 0)
      return "int8 needs leading dimensions that are multiples of 4";
  const auto order = get<std::int32_t>(product.a, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL);
  if (order == CUBLASLT_ORDER_COL &&
      transposition(product, CUBLASLT_MATMUL_DESC_TRANSB) != CUBLAS_OP_N)
    return "int8 needs B not transposed";
  return {};
}

/// Returns the reason why no algorithm supports the product, or an empty text.
std::string unsupported(const Product& product) {
  if (is_fp8(type_of(product.a)) || is_fp8(type_of(product.b))) return unsupported_fp8(product);
  if (type_of(product.a) == CUDA_R_8I && type_of(product.b) == CUDA_R_8I)
    return unsupported_integers(product);
  return {};
}

/// Checks the product. Returns the real library's status and records a refusal.
cublasStatus_t check(const char* function, const Product& product) {
  if (const std::string why = mismatch(product); !why.empty())
    return refuse(function, CUBLAS_STATUS_INVALID_VALUE, why);
  if (const std::string why = unsupported(product); !why.empty())
    return refuse(function, CUBLAS_STATUS_NOT_SUPPORTED, why);
  return CUBLAS_STATUS_SUCCESS;
}

/// Marks the output as zeros.
void discard_output(const Attributes& layout, void* output) {
  const std::size_t element = data_type_bytes(type_of(layout));
  const bool by_rows =
      get(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, CUBLASLT_ORDER_COL) == CUBLASLT_ORDER_ROW;
  const auto lines = static_cast<std::size_t>(by_rows ? rows(layout) : columns(layout));
  const auto length = static_cast<std::size_t>(by_rows ? columns(layout) : rows(layout));
  const auto batch = get<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 1);
  const auto stride = get<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 0);
  discard_matrices(output,
                   {length * element, lines, static_cast<std::size_t>(leading_bytes(layout))},
                   static_cast<std::size_t>(batch), static_cast<std::size_t>(stride) * element);
}

}  // namespace
}  // namespace optrace::emulated

using namespace optrace::emulated;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  Attributes* made = nullptr;  // Contains nothing, because cuBLAS's handles are accepted, too.
  return create(reinterpret_cast<cublasLtMatmulDescOpaque_t**>(handle), made);
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  return destroy(handle);
}

// Descriptors.

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          uint64_t rows, uint64_t columns, int64_t ld) {
  Attributes* made = nullptr;
  const cublasStatus_t status = create(layout, made);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *made = layout_attributes(type, rows, columns, ld);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  return destroy(layout);
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t size) {
  return set_bytes(layout, name, value, size);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t name, void* value,
                                                size_t size, size_t* written) {
  return get_bytes(layout, name, value, size, written);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* descriptor,
                                        cublasComputeType_t compute, cudaDataType_t scale) {
  Attributes* made = nullptr;
  const cublasStatus_t status = create(descriptor, made);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  *made = descriptor_attributes(compute, scale);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
  return destroy(descriptor);
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t size) {
  return set_bytes(descriptor, name, value, size);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t name, void* value,
                                              size_t size, size_t* written) {
  return get_bytes(descriptor, name, value, size, written);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  Attributes* made = nullptr;
  const cublasStatus_t status = create(preference, made);
  if (status == CUBLAS_STATUS_SUCCESS)
    set(*made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{0});
  return status;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    const void* value, size_t size) {
  return set_bytes(preference, name, value, size);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name,
                                                    void* value, size_t size, size_t* written) {
  return get_bytes(preference, name, value, size, written);
}

// Algorithms.

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* returned) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (descriptor == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      preference == nullptr || results == nullptr || returned == nullptr || requested < 1)
    return CUBLAS_STATUS_INVALID_VALUE;
  *returned = 0;
  const cublasStatus_t status =
      check("cublasLtMatmulAlgoGetHeuristic", {of(descriptor), of(a), of(b), of(c), of(d)});
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  constexpr int kKnown = 3;
  *returned = std::min(requested, kKnown);
  for (int i = 0; i < *returned; ++i) {
    results[i] = {};
    results[i].algo = algorithm_of(i);
    results[i].workspaceSize = 0;
    results[i].state = CUBLAS_STATUS_SUCCESS;
    results[i].wavesCount = 1;
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, int id, cublasLtMatmulAlgo_t* algorithm) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algorithm == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = algorithm_of(id);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* algorithm,
                                       cublasLtMatmulHeuristicResult_t* result) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (descriptor == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr ||
      algorithm == nullptr || result == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  const cublasStatus_t status =
      check("cublasLtMatmulAlgoCheck", {of(descriptor), of(a), of(b), of(c), of(d)});
  *result = {};
  result->algo = *algorithm;
  result->state = status;
  result->wavesCount = 1;
  return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    const void* value, size_t size) {
  std::uint32_t number = 0;
  if (algorithm == nullptr || value == nullptr || !has_attribute(name) || size == 0 ||
      size > sizeof number)
    return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&number, value, size);
  configure(*algorithm, name, number);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name,
                                                    void* value, size_t size, size_t* written) {
  if (algorithm == nullptr || !has_attribute(name)) return CUBLAS_STATUS_INVALID_VALUE;
  const std::uint32_t number = configured(*algorithm, name);
  const bool is_short =
      name == CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID || name == CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID;
  const std::size_t needed = is_short ? sizeof(std::uint16_t) : sizeof number;
  if (written != nullptr) *written = needed;
  if (size == 0) return written == nullptr ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
  if (value == nullptr || size < needed) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(value, &number, needed);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t descriptor, const void*,
                              const void*, cublasLtMatrixLayout_t a, const void*,
                              cublasLtMatrixLayout_t b, const void*, const void*,
                              cublasLtMatrixLayout_t c, void* output, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* algorithm, void*, size_t workspace,
                              cudaStream_t) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (descriptor == nullptr || a == nullptr || b == nullptr || c == nullptr || d == nullptr)
    return CUBLAS_STATUS_INVALID_VALUE;
  const Product product = {of(descriptor), of(a), of(b), of(c), of(d)};
  const cublasStatus_t status = check("cublasLtMatmul", product);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  discard_output(product.d, output);
  record_product(product, algorithm, &configured, workspace, "emulated");
  return status;
}

}  // extern "C"
