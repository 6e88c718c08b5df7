#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace optrace {

/// A dtype, spelled as PyTorch prints it, without `torch.` (c10/core/ScalarType.h,
/// torch/csrc/utils/tensor_dtypes.cpp).
struct Dtype {
  std::string_view name;
  std::uint64_t bytes;  ///< Of an element, including both parts of a complex number.
};

inline constexpr std::array<Dtype, 23> kDtypes{{
    {"float64", 8},       {"float32", 4},     {"float16", 2},         {"bfloat16", 2},
    {"float8_e4m3fn", 1}, {"float8_e5m2", 1}, {"float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", 1},
    {"complex32", 4},     {"complex64", 8},   {"complex128", 16},     {"int8", 1},
    {"int16", 2},         {"int32", 4},       {"int64", 8},           {"uint8", 1},
    {"uint16", 2},        {"uint32", 4},      {"uint64", 8},          {"bool", 1},
    {"qint8", 1},         {"quint8", 1},      {"qint32", 4},
}};

constexpr const Dtype* find_dtype(std::string_view name) {
  for (const Dtype& dtype : kDtypes)
    if (dtype.name == name) return &dtype;
  return nullptr;
}

constexpr bool is_dtype(std::string_view name) {
  return find_dtype(name) != nullptr;
}

/// Returns the size of an element in bytes. Dtypes that are not in the table have eight bits: newer
/// versions of PyTorch add such ones.
constexpr std::uint64_t element_bytes(std::string_view dtype) {
  const Dtype* const found = find_dtype(dtype);
  return found == nullptr ? 1 : found->bytes;
}

/// Returns what `torch.dtype.is_floating_point` is: true for real numbers only.
constexpr bool is_floating_point(std::string_view dtype) {
  return dtype.substr(0, 5) == "float" || dtype.substr(0, 6) == "bfloat";
}

/// Returns the category of type promotion (c10/core/ScalarType.h): 0 for bool, 1 for integers, 2
/// for floating-point and 3 for complex numbers.
constexpr int promotion_category(std::string_view dtype) {
  if (dtype == "bool") return 0;
  if (is_floating_point(dtype)) return 2;
  return dtype.substr(0, 7) == "complex" ? 3 : 1;
}

}  // namespace optrace
