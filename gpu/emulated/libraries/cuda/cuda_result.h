#pragma once

// What the files of the emulated driver share.

#include <cuda.h>

#include "gpu/emulated/streams/device_streams.h"

namespace optrace::emulated {

inline CUresult result(Status status) {
  return status == Status::invalid_configuration ? CUDA_ERROR_INVALID_VALUE
                                                 : static_cast<CUresult>(status);
}

/// Returns the name of an error, or null for an unknown one.
const char* error_name(CUresult error);

/// Returns a driver function's result, after recording it if it is an error.
CUresult outcome(CUresult error, const char* function = __builtin_FUNCTION());

inline void* pointer_of(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}
inline CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace optrace::emulated
