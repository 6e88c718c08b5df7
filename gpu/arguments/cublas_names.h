#pragma once

// Names of cuBLAS's enumerators in call records.

#include <string>

#include <cublas_api.h>

#include "gpu/arguments/enum_names.h"

namespace optrace::emulated {

/// Returns "n", "t" or "c".
inline std::string operation_name(cublasOperation_t operation) {
  return short_name(enumerator_name<cublasOperation_t, 0, 4>(operation), "CUBLAS_OP_", operation);
}

/// Returns "32f", "32f_fast_tf32" and so on.
inline std::string compute_name(cublasComputeType_t compute) {
  return short_name(enumerator_name<cublasComputeType_t, 64, 16>(compute), "CUBLAS_COMPUTE_",
                    compute);
}

}  // namespace optrace::emulated
