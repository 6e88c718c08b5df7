#pragma once

// Names and sizes of cudaDataType's values, for the records of library calls.

#include <cstddef>

#include <library_types.h>

namespace optrace::emulated {

struct DataType {
  cudaDataType type;
  const char* name;
  std::size_t bytes;  ///< Of an element, including both parts of a complex number.
};

inline constexpr DataType kDataTypes[] = {
    {CUDA_R_16F, "float16", 2},
    {CUDA_C_16F, "complex32", 4},
    {CUDA_R_16BF, "bfloat16", 2},
    {CUDA_C_16BF, "complex of bfloat16", 4},
    {CUDA_R_32F, "float32", 4},
    {CUDA_C_32F, "complex64", 8},
    {CUDA_R_64F, "float64", 8},
    {CUDA_C_64F, "complex128", 16},
    {CUDA_R_8I, "int8", 1},
    {CUDA_R_8U, "uint8", 1},
    {CUDA_R_16I, "int16", 2},
    {CUDA_R_32I, "int32", 4},
    {CUDA_R_64I, "int64", 8},
    {CUDA_R_8F_E4M3, "float8_e4m3", 1},
    {CUDA_R_8F_E5M2, "float8_e5m2", 1},
};

/// Returns null for a type that is not in the table.
inline const DataType* data_type(cudaDataType type) {
  for (const DataType& known : kDataTypes)
    if (known.type == type) return &known;
  return nullptr;
}

inline const char* data_type_name(cudaDataType type) {
  const DataType* const known = data_type(type);
  return known == nullptr ? "other" : known->name;
}

inline std::size_t data_type_bytes(cudaDataType type) {
  const DataType* const known = data_type(type);
  constexpr std::size_t kMaxSize = 16;
  return known == nullptr ? kMaxSize : known->bytes;
}

}  // namespace optrace::emulated
