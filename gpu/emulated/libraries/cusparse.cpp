// cuSPARSE's generic API on emulated devices. Descriptors store their parameters; products and
// solutions are recorded. The other functions are generated from the header.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_set>

// PyTorch calls the block-sparse functions, which are deprecated.
#define DISABLE_CUSPARSE_DEPRECATED
#include <cusparse.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/cuda_data_types.h"
#include "gpu/arguments/enum_names.h"
#include "gpu/emulated/device/device.h"

struct cusparseSpMatDescr {
  cusparseFormat_t format;
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t nonzeros;
  cusparseIndexType_t index_type;
  cudaDataType type;
  std::int64_t block_rows = 0;  ///< BSR only.
  std::int64_t block_columns = 0;
  int batch = 1;
  std::string fill_mode{};  ///< Set by SpMatSetAttribute.
  std::string diagonal{};
};

struct cusparseDnMatDescr {
  std::int64_t rows;
  std::int64_t columns;
  std::int64_t leading_dimension;
  cudaDataType type;
  cusparseOrder_t order;
  int batch = 1;
};

struct cusparseDnVecDescr {
  std::int64_t size;
  cudaDataType type;
};

struct cusparseSpGEMMDescr {
  std::int64_t nonzeros = 0;  ///< Of the product.
};

namespace {

using namespace optrace::emulated;
using optrace_ops::JsonText;

// An empty buffer would be valid, but with this size callers that allocate it get a non-null
// pointer.
constexpr std::size_t kBufferBytes = 256;

/// Descriptors that have been created and not destroyed yet.
template <typename Descriptor>
class Descriptors {
 public:
  Descriptor* add(Descriptor* descriptor) {
    const std::lock_guard lock(mutex_);
    live_.insert(descriptor);
    return descriptor;
  }
  bool has(const Descriptor* descriptor) {
    const std::lock_guard lock(mutex_);
    return live_.count(descriptor) != 0;
  }
  cusparseStatus_t destroy(const Descriptor* descriptor) {
    {
      const std::lock_guard lock(mutex_);
      if (live_.erase(descriptor) == 0)
        return descriptor == nullptr ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
    }
    delete descriptor;
    return CUSPARSE_STATUS_SUCCESS;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<const Descriptor*> live_;
};

template <typename Descriptor>
Descriptors<Descriptor>& all() {
  // Never destroyed, because it is used until the process ends.
  static auto* const descriptors = new Descriptors<Descriptor>;
  return *descriptors;
}

template <typename... Descriptor>
bool live(const Descriptor*... descriptors) {
  return (all<Descriptor>().has(descriptors) && ...);
}

cusparseStatus_t refuse(const char* function, cusparseStatus_t status, const std::string& why) {
  record_refusal(function, why, status, enumerator_name<cusparseStatus_t, 0, 8>(status));
  return status;
}

std::string format_name(cusparseFormat_t format) {
  switch (format) {
    case CUSPARSE_FORMAT_CSR:
      return "CSR";
    case CUSPARSE_FORMAT_CSC:
      return "CSC";
    case CUSPARSE_FORMAT_COO:
      return "COO";
    case CUSPARSE_FORMAT_BSR:
      return "BSR";
    default:
      return std::to_string(format);
  }
}

const char* operation_name(cusparseOperation_t operation) {
  switch (operation) {
    case CUSPARSE_OPERATION_NON_TRANSPOSE:
      return "none";
    case CUSPARSE_OPERATION_TRANSPOSE:
      return "transpose";
    case CUSPARSE_OPERATION_CONJUGATE_TRANSPOSE:
      return "conjugate transpose";
  }
  return "unknown";
}

void put_matrix(JsonText& json, const char* key, const cusparseSpMatDescr& matrix) {
  json.key(key), json.open('{');
  put(json, "format", format_name(matrix.format));
  put(json, "rows", matrix.rows), put(json, "columns", matrix.columns);
  put(json, "nonzeros", matrix.nonzeros);
  if (matrix.block_rows > 0)
    put(json, "block_rows", matrix.block_rows), put(json, "block_columns", matrix.block_columns);
  put(json, "type", data_type_name(matrix.type));
  put(json, "indices", matrix.index_type == CUSPARSE_INDEX_64I ? "int64" : "int32");
  if (matrix.batch > 1) put(json, "batch", matrix.batch);
  if (!matrix.fill_mode.empty()) put(json, "fill_mode", matrix.fill_mode);
  if (!matrix.diagonal.empty()) put(json, "diagonal", matrix.diagonal);
  json.close('}');
}

void put_matrix(JsonText& json, const char* key, const cusparseDnMatDescr& matrix) {
  json.key(key), json.open('{');
  put(json, "rows", matrix.rows), put(json, "columns", matrix.columns);
  put(json, "leading_dimension", matrix.leading_dimension);
  put(json, "order", matrix.order == CUSPARSE_ORDER_ROW ? "row" : "column");
  put(json, "type", data_type_name(matrix.type));
  if (matrix.batch > 1) put(json, "batch", matrix.batch);
  json.close('}');
}

void put_matrix(JsonText& json, const char* key, const cusparseDnVecDescr& vector) {
  json.key(key), json.open('{');
  put(json, "size", vector.size);
  put(json, "type", data_type_name(vector.type));
  json.close('}');
}

/// Records a call with the operands A, B and C; `operation_b` is null if there is none. Returns the
/// call's result.
template <typename A, typename B, typename C>
cusparseStatus_t record(const char* function, cusparseOperation_t operation_a,
                        const cusparseOperation_t* operation_b, const A* a, const B* b, const C* c,
                        cudaDataType compute, std::int64_t algorithm,
                        std::string_view algorithm_name) {
  if (!live(a, b, c)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (!recording()) return CUSPARSE_STATUS_SUCCESS;
  Call call(function, "library");
  JsonText& json = call.json();
  put(json, "operation_a", operation_name(operation_a));
  if (operation_b != nullptr) put(json, "operation_b", operation_name(*operation_b));
  put_matrix(json, "a", *a), put_matrix(json, "b", *b), put_matrix(json, "c", *c);
  put(json, "compute", data_type_name(compute));
  put(json, "algorithm", short_name(algorithm_name, "CUSPARSE_", algorithm));
  call.record();
  return CUSPARSE_STATUS_SUCCESS;
}

std::string_view name_of(cusparseSpMMAlg_t algorithm) {
  return enumerator_name<cusparseSpMMAlg_t, 0, CUSPARSE_SPMM_BLOCKED_ELL_ALG1 + 1>(algorithm);
}

std::string_view name_of(cusparseSpMVAlg_t algorithm) {
  return enumerator_name<cusparseSpMVAlg_t, 0, CUSPARSE_SPMV_SELL_ALG1 + 1>(algorithm);
}

std::string_view name_of(cusparseSpGEMMAlg_t algorithm) {
  return enumerator_name<cusparseSpGEMMAlg_t, 0, CUSPARSE_SPGEMM_ALG3 + 1>(algorithm);
}

cusparseStatus_t give_buffer_size(std::size_t* bytes) {
  if (bytes == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *bytes = kBufferBytes;
  return CUSPARSE_STATUS_SUCCESS;
}

/// Checks the supported types ("cusparseSpMM()", table of data types): halves are computed in
/// float32; bfloat16 requires compute capability 8.0.
cusparseStatus_t check_types(const char* function, cudaDataType a, cudaDataType b,
                             cudaDataType compute) {
  if (a != b)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED,
                  std::string("types ") + data_type_name(a) + " and " + data_type_name(b));
  if ((a == CUDA_R_16BF || a == CUDA_C_16BF) && arch() < kAmpere)
    return refuse(function, CUSPARSE_STATUS_ARCH_MISMATCH, "bfloat16 below sm_80");
  if ((a == CUDA_R_16F || a == CUDA_R_16BF) && compute != CUDA_R_32F)
    return refuse(function, CUSPARSE_STATUS_NOT_SUPPORTED,
                  std::string("half precision computed in ") + data_type_name(compute));
  return CUSPARSE_STATUS_SUCCESS;
}

/// Returns the expected number of elements in the product of two sparse matrices with random
/// positions. The actual number would be computed on the device.
std::int64_t expected_nonzeros(const cusparseSpMatDescr& a, const cusparseSpMatDescr& b) {
  const std::int64_t inner = std::max<std::int64_t>(b.rows, 1);
  const double products = static_cast<double>(a.nonzeros) * static_cast<double>(b.nonzeros) /
                          static_cast<double>(inner);
  const double all = static_cast<double>(a.rows) * static_cast<double>(b.columns);
  return static_cast<std::int64_t>(std::min(products, all));
}

/// Records that the host reads a number that depends on the contents of device memory.
void record_read(const char* function, const char* what, std::int64_t assumed) {
  Call call(function, "host_read");
  put(call.json(), "what", what), put(call.json(), "assumed", assumed);
  call.record();
}

cusparseStatus_t no_zero_pivot(const char* function, int* position) {
  if (position == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *position = -1;
  record_read(function, "position of a zero pivot", *position);
  return CUSPARSE_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

// Descriptors

cusparseStatus_t cusparseCreateCoo(cusparseSpMatDescr_t* spMatDescr, int64_t rows, int64_t cols,
                                   int64_t nnz, void*, void*, void*, cusparseIndexType_t cooIdxType,
                                   cusparseIndexBase_t, cudaDataType valueType) {
  if (spMatDescr == nullptr || rows < 0 || cols < 0 || nnz < 0)
    return CUSPARSE_STATUS_INVALID_VALUE;
  *spMatDescr = all<cusparseSpMatDescr>().add(
      new cusparseSpMatDescr{CUSPARSE_FORMAT_COO, rows, cols, nnz, cooIdxType, valueType});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateCsr(cusparseSpMatDescr_t* spMatDescr, int64_t rows, int64_t cols,
                                   int64_t nnz, void*, void*, void*, cusparseIndexType_t,
                                   cusparseIndexType_t csrColIndType, cusparseIndexBase_t,
                                   cudaDataType valueType) {
  if (spMatDescr == nullptr || rows < 0 || cols < 0 || nnz < 0)
    return CUSPARSE_STATUS_INVALID_VALUE;
  *spMatDescr = all<cusparseSpMatDescr>().add(
      new cusparseSpMatDescr{CUSPARSE_FORMAT_CSR, rows, cols, nnz, csrColIndType, valueType});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateBsr(cusparseSpMatDescr_t* spMatDescr, int64_t brows, int64_t bcols,
                                   int64_t bnnz, int64_t rowBlockSize, int64_t colBlockSize, void*,
                                   void*, void*, cusparseIndexType_t,
                                   cusparseIndexType_t bsrColIndType, cusparseIndexBase_t,
                                   cudaDataType valueType, cusparseOrder_t) {
  if (spMatDescr == nullptr || brows < 0 || bcols < 0 || bnnz < 0 || rowBlockSize < 1 ||
      colBlockSize < 1)
    return CUSPARSE_STATUS_INVALID_VALUE;
  *spMatDescr = all<cusparseSpMatDescr>().add(new cusparseSpMatDescr{
      CUSPARSE_FORMAT_BSR, brows * rowBlockSize, bcols * colBlockSize,
      bnnz * rowBlockSize * colBlockSize, bsrColIndType, valueType, rowBlockSize, colBlockSize});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroySpMat(cusparseConstSpMatDescr_t spMatDescr) {
  return all<cusparseSpMatDescr>().destroy(spMatDescr);
}

cusparseStatus_t cusparseSpMatGetSize(cusparseConstSpMatDescr_t spMatDescr, int64_t* rows,
                                      int64_t* cols, int64_t* nnz) {
  if (!live(spMatDescr) || rows == nullptr || cols == nullptr || nnz == nullptr)
    return CUSPARSE_STATUS_INVALID_VALUE;
  *rows = spMatDescr->rows;
  *cols = spMatDescr->columns;
  *nnz = spMatDescr->nonzeros;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCsrSetPointers(cusparseSpMatDescr_t spMatDescr, void*, void*, void*) {
  return live(spMatDescr) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseCsrSetStridedBatch(cusparseSpMatDescr_t spMatDescr, int batchCount,
                                            int64_t, int64_t) {
  if (!live(spMatDescr) || batchCount < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  spMatDescr->batch = batchCount;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpMatSetAttribute(cusparseSpMatDescr_t spMatDescr,
                                           cusparseSpMatAttribute_t attribute, void* data,
                                           size_t dataSize) {
  if (!live(spMatDescr) || data == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  if (attribute == CUSPARSE_SPMAT_FILL_MODE && dataSize == sizeof(cusparseFillMode_t)) {
    spMatDescr->fill_mode =
        *static_cast<const cusparseFillMode_t*>(data) == CUSPARSE_FILL_MODE_LOWER ? "lower"
                                                                                  : "upper";
    return CUSPARSE_STATUS_SUCCESS;
  }
  if (attribute == CUSPARSE_SPMAT_DIAG_TYPE && dataSize == sizeof(cusparseDiagType_t)) {
    spMatDescr->diagonal = *static_cast<const cusparseDiagType_t*>(data) == CUSPARSE_DIAG_TYPE_UNIT
                               ? "unit"
                               : "non-unit";
    return CUSPARSE_STATUS_SUCCESS;
  }
  return CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseCreateDnMat(cusparseDnMatDescr_t* dnMatDescr, int64_t rows, int64_t cols,
                                     int64_t ld, void*, cudaDataType valueType,
                                     cusparseOrder_t order) {
  if (dnMatDescr == nullptr || rows < 0 || cols < 0 ||
      ld < (order == CUSPARSE_ORDER_ROW ? cols : rows))
    return CUSPARSE_STATUS_INVALID_VALUE;
  *dnMatDescr =
      all<cusparseDnMatDescr>().add(new cusparseDnMatDescr{rows, cols, ld, valueType, order});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyDnMat(cusparseConstDnMatDescr_t dnMatDescr) {
  return all<cusparseDnMatDescr>().destroy(dnMatDescr);
}

cusparseStatus_t cusparseDnMatSetStridedBatch(cusparseDnMatDescr_t dnMatDescr, int batchCount,
                                              int64_t) {
  if (!live(dnMatDescr) || batchCount < 1) return CUSPARSE_STATUS_INVALID_VALUE;
  dnMatDescr->batch = batchCount;
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseCreateDnVec(cusparseDnVecDescr_t* dnVecDescr, int64_t size, void*,
                                     cudaDataType valueType) {
  if (dnVecDescr == nullptr || size < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  *dnVecDescr = all<cusparseDnVecDescr>().add(new cusparseDnVecDescr{size, valueType});
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseDestroyDnVec(cusparseConstDnVecDescr_t dnVecDescr) {
  return all<cusparseDnVecDescr>().destroy(dnVecDescr);
}

// Sparse by dense

cusparseStatus_t cusparseSpMM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                         const void*, cusparseConstSpMatDescr_t matA,
                                         cusparseConstDnMatDescr_t matB, const void*,
                                         cusparseDnMatDescr_t matC, cudaDataType computeType,
                                         cusparseSpMMAlg_t, size_t* bufferSize) {
  if (!live(matA, matB, matC)) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t types =
      check_types("cusparseSpMM_bufferSize", matA->type, matB->type, computeType);
  return types == CUSPARSE_STATUS_SUCCESS ? give_buffer_size(bufferSize) : types;
}

cusparseStatus_t cusparseSpMM(cusparseHandle_t, cusparseOperation_t opA, cusparseOperation_t opB,
                              const void*, cusparseConstSpMatDescr_t matA,
                              cusparseConstDnMatDescr_t matB, const void*,
                              cusparseDnMatDescr_t matC, cudaDataType computeType,
                              cusparseSpMMAlg_t alg, void*) {
  return record("cusparseSpMM", opA, &opB, matA, matB, matC, computeType, alg, name_of(alg));
}

cusparseStatus_t cusparseSpMV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void*,
                                         cusparseConstSpMatDescr_t matA,
                                         cusparseConstDnVecDescr_t vecX, const void*,
                                         cusparseDnVecDescr_t vecY, cudaDataType computeType,
                                         cusparseSpMVAlg_t, size_t* bufferSize) {
  if (!live(matA, vecX, vecY)) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t types =
      check_types("cusparseSpMV_bufferSize", matA->type, vecX->type, computeType);
  return types == CUSPARSE_STATUS_SUCCESS ? give_buffer_size(bufferSize) : types;
}

cusparseStatus_t cusparseSpMV(cusparseHandle_t, cusparseOperation_t opA, const void*,
                              cusparseConstSpMatDescr_t matA, cusparseConstDnVecDescr_t vecX,
                              const void*, cusparseDnVecDescr_t vecY, cudaDataType computeType,
                              cusparseSpMVAlg_t alg, void*) {
  return record("cusparseSpMV", opA, nullptr, matA, vecX, vecY, computeType, alg, name_of(alg));
}

cusparseStatus_t cusparseSDDMM_bufferSize(cusparseHandle_t, cusparseOperation_t,
                                          cusparseOperation_t, const void*,
                                          cusparseConstDnMatDescr_t matA,
                                          cusparseConstDnMatDescr_t matB, const void*,
                                          cusparseSpMatDescr_t matC, cudaDataType,
                                          cusparseSDDMMAlg_t, size_t* bufferSize) {
  return live(matA, matB, matC) ? give_buffer_size(bufferSize) : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseSDDMM_preprocess(cusparseHandle_t, cusparseOperation_t,
                                          cusparseOperation_t, const void*,
                                          cusparseConstDnMatDescr_t matA,
                                          cusparseConstDnMatDescr_t matB, const void*,
                                          cusparseSpMatDescr_t matC, cudaDataType,
                                          cusparseSDDMMAlg_t, void*) {
  return live(matA, matB, matC) ? CUSPARSE_STATUS_SUCCESS : CUSPARSE_STATUS_INVALID_VALUE;
}

cusparseStatus_t cusparseSDDMM(cusparseHandle_t, cusparseOperation_t opA, cusparseOperation_t opB,
                               const void*, cusparseConstDnMatDescr_t matA,
                               cusparseConstDnMatDescr_t matB, const void*,
                               cusparseSpMatDescr_t matC, cudaDataType computeType,
                               cusparseSDDMMAlg_t alg, void*) {
  return record("cusparseSDDMM", opA, &opB, matA, matB, matC, computeType, alg,
                alg == CUSPARSE_SDDMM_ALG_DEFAULT ? "CUSPARSE_SDDMM_ALG_DEFAULT" : "");
}

// Triangular systems

cusparseStatus_t cusparseSpSV_bufferSize(cusparseHandle_t, cusparseOperation_t, const void*,
                                         cusparseConstSpMatDescr_t matA,
                                         cusparseConstDnVecDescr_t vecX, cusparseDnVecDescr_t vecY,
                                         cudaDataType computeType, cusparseSpSVAlg_t,
                                         cusparseSpSVDescr_t, size_t* bufferSize) {
  if (!live(matA, vecX, vecY)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (matA->type != computeType)
    return refuse("cusparseSpSV_bufferSize", CUSPARSE_STATUS_NOT_SUPPORTED,
                  "types other than the one it is computed in");
  return give_buffer_size(bufferSize);
}

cusparseStatus_t cusparseSpSV_analysis(cusparseHandle_t, cusparseOperation_t opA, const void*,
                                       cusparseConstSpMatDescr_t matA,
                                       cusparseConstDnVecDescr_t vecX, cusparseDnVecDescr_t vecY,
                                       cudaDataType computeType, cusparseSpSVAlg_t alg,
                                       cusparseSpSVDescr_t, void*) {
  return record("cusparseSpSV_analysis", opA, nullptr, matA, vecX, vecY, computeType, alg, "");
}

cusparseStatus_t cusparseSpSV_solve(cusparseHandle_t, cusparseOperation_t opA, const void*,
                                    cusparseConstSpMatDescr_t matA, cusparseConstDnVecDescr_t vecX,
                                    cusparseDnVecDescr_t vecY, cudaDataType computeType,
                                    cusparseSpSVAlg_t alg, cusparseSpSVDescr_t) {
  return record("cusparseSpSV_solve", opA, nullptr, matA, vecX, vecY, computeType, alg, "");
}

cusparseStatus_t cusparseSpSM_bufferSize(cusparseHandle_t, cusparseOperation_t, cusparseOperation_t,
                                         const void*, cusparseConstSpMatDescr_t matA,
                                         cusparseConstDnMatDescr_t matB, cusparseDnMatDescr_t matC,
                                         cudaDataType computeType, cusparseSpSMAlg_t,
                                         cusparseSpSMDescr_t, size_t* bufferSize) {
  if (!live(matA, matB, matC)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (matA->type != computeType)
    return refuse("cusparseSpSM_bufferSize", CUSPARSE_STATUS_NOT_SUPPORTED,
                  "types other than the one it is computed in");
  return give_buffer_size(bufferSize);
}

cusparseStatus_t cusparseSpSM_analysis(cusparseHandle_t, cusparseOperation_t opA,
                                       cusparseOperation_t opB, const void*,
                                       cusparseConstSpMatDescr_t matA,
                                       cusparseConstDnMatDescr_t matB, cusparseDnMatDescr_t matC,
                                       cudaDataType computeType, cusparseSpSMAlg_t alg,
                                       cusparseSpSMDescr_t, void*) {
  return record("cusparseSpSM_analysis", opA, &opB, matA, matB, matC, computeType, alg, "");
}

cusparseStatus_t cusparseSpSM_solve(cusparseHandle_t, cusparseOperation_t opA,
                                    cusparseOperation_t opB, const void*,
                                    cusparseConstSpMatDescr_t matA, cusparseConstDnMatDescr_t matB,
                                    cusparseDnMatDescr_t matC, cudaDataType computeType,
                                    cusparseSpSMAlg_t alg, cusparseSpSMDescr_t) {
  return record("cusparseSpSM_solve", opA, &opB, matA, matB, matC, computeType, alg, "");
}

// Sparse by sparse. The caller queries the buffer size without a buffer, then passes one.

cusparseStatus_t cusparseSpGEMM_createDescr(cusparseSpGEMMDescr_t* descr) {
  if (descr == nullptr) return CUSPARSE_STATUS_INVALID_VALUE;
  *descr = all<cusparseSpGEMMDescr>().add(new cusparseSpGEMMDescr);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpGEMM_destroyDescr(cusparseSpGEMMDescr_t descr) {
  return all<cusparseSpGEMMDescr>().destroy(descr);
}

cusparseStatus_t cusparseSpGEMM_workEstimation(
    cusparseHandle_t, cusparseOperation_t, cusparseOperation_t, const void*,
    cusparseConstSpMatDescr_t matA, cusparseConstSpMatDescr_t matB, const void*,
    cusparseSpMatDescr_t matC, cudaDataType computeType, cusparseSpGEMMAlg_t,
    cusparseSpGEMMDescr_t spgemmDescr, size_t* bufferSize1, void* externalBuffer1) {
  if (!live(matA, matB, matC, spgemmDescr)) return CUSPARSE_STATUS_INVALID_VALUE;
  const cusparseStatus_t types =
      check_types("cusparseSpGEMM_workEstimation", matA->type, matB->type, computeType);
  if (types != CUSPARSE_STATUS_SUCCESS) return types;
  return externalBuffer1 == nullptr ? give_buffer_size(bufferSize1) : CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpGEMM_compute(cusparseHandle_t, cusparseOperation_t opA,
                                        cusparseOperation_t opB, const void*,
                                        cusparseConstSpMatDescr_t matA,
                                        cusparseConstSpMatDescr_t matB, const void*,
                                        cusparseSpMatDescr_t matC, cudaDataType computeType,
                                        cusparseSpGEMMAlg_t alg, cusparseSpGEMMDescr_t spgemmDescr,
                                        size_t* bufferSize2, void* externalBuffer2) {
  if (!live(matA, matB, matC, spgemmDescr)) return CUSPARSE_STATUS_INVALID_VALUE;
  if (externalBuffer2 == nullptr) return give_buffer_size(bufferSize2);
  matC->nonzeros = expected_nonzeros(*matA, *matB);
  record("cusparseSpGEMM_compute", opA, &opB, matA, matB, matC, computeType, alg, name_of(alg));
  record_read("cusparseSpGEMM_compute", "elements of the product", matC->nonzeros);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseSpGEMM_copy(cusparseHandle_t, cusparseOperation_t opA,
                                     cusparseOperation_t opB, const void*,
                                     cusparseConstSpMatDescr_t matA, cusparseConstSpMatDescr_t matB,
                                     const void*, cusparseSpMatDescr_t matC,
                                     cudaDataType computeType, cusparseSpGEMMAlg_t alg,
                                     cusparseSpGEMMDescr_t spgemmDescr) {
  if (!live(spgemmDescr)) return CUSPARSE_STATUS_INVALID_VALUE;
  return record("cusparseSpGEMM_copy", opA, &opB, matA, matB, matC, computeType, alg, name_of(alg));
}

cusparseStatus_t cusparseXcsrgeam2Nnz(cusparseHandle_t, int m, int n, const cusparseMatDescr_t,
                                      int nnzA, const int*, const int*, const cusparseMatDescr_t,
                                      int nnzB, const int*, const int*, const cusparseMatDescr_t,
                                      int*, int* nnzTotalDevHostPtr, void*) {
  if (nnzTotalDevHostPtr == nullptr || m < 0 || n < 0) return CUSPARSE_STATUS_INVALID_VALUE;
  // The number if no two elements coincide.
  const std::int64_t together = std::int64_t{nnzA} + nnzB;
  *nnzTotalDevHostPtr = static_cast<int>(std::min(together, std::int64_t{m} * n));
  record_read("cusparseXcsrgeam2Nnz", "elements of the sum", *nnzTotalDevHostPtr);
  return CUSPARSE_STATUS_SUCCESS;
}

cusparseStatus_t cusparseXbsrsv2_zeroPivot(cusparseHandle_t, bsrsv2Info_t, int* position) {
  return no_zero_pivot("cusparseXbsrsv2_zeroPivot", position);
}

cusparseStatus_t cusparseXbsrsm2_zeroPivot(cusparseHandle_t, bsrsm2Info_t, int* position) {
  return no_zero_pivot("cusparseXbsrsm2_zeroPivot", position);
}

}  // extern "C"
