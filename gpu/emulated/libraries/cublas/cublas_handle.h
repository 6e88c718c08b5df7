#pragma once

// The emulated cuBLAS's handles, what generated functions do with them
// (gpu/generator/call_rules.cpp), and refused calls of cuBLAS and cuBLASLt.

#include <cstddef>
#include <new>
#include <string>

#include <cublas_v2.h>

#include "gpu/arguments/call_values.h"
#include "gpu/arguments/enum_names.h"

struct cublasContext {
  cudaStream_t stream = nullptr;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
  cublasAtomicsMode_t atomics_mode = CUBLAS_ATOMICS_NOT_ALLOWED;
  cublasMath_t math_mode = CUBLAS_DEFAULT_MATH;
  std::size_t workspace = 0;  ///< Size in bytes of the workspace set by the program.
  int multiprocessors = 0;    ///< Number that the program wants to use; 0: all.
};

namespace optrace::emulated {

inline cublasStatus_t create(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *handle = new (std::nothrow) cublasContext;
  return *handle == nullptr ? CUBLAS_STATUS_ALLOC_FAILED : CUBLAS_STATUS_SUCCESS;
}

inline cublasStatus_t destroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

/// Changes a setting.
template <typename Value>
cublasStatus_t setting(cublasHandle_t handle, Value cublasContext::* member, Value value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->*member = value;
  return CUBLAS_STATUS_SUCCESS;
}

/// Returns a setting in `value`.
template <typename Value>
cublasStatus_t setting(cublasHandle_t handle, Value cublasContext::* member, Value* value) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *value = handle->*member;
  return CUBLAS_STATUS_SUCCESS;
}

/// Refuses a call as the real library does.
inline cublasStatus_t refuse(const char* function, cublasStatus_t status, const std::string& why) {
  record_refusal(function, why, status, enumerator_name<cublasStatus_t, 0, 32>(status));
  return status;
}

}  // namespace optrace::emulated
