#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace optrace {

/// One of CUDA's libraries as emulated.
struct DeviceFamily {
  static constexpr std::size_t kMax = 4;

  std::string_view name;  ///< The sources are `name.cpp` and `name_*.cpp`.
  std::string_view stem;  ///< Stem of the library's file name: libcublas (.so.12).
  /// Prefixes of its functions' names. After a prefix that ends in a letter, an upper-case letter,
  /// `_` or a digit follows, so that `cu` does not match `cublas`.
  std::array<std::string_view, kMax> prefixes;
  std::array<std::string_view, kMax> headers;  ///< The first one is required.
  std::string_view status;                     ///< Return type of its functions.
  std::string_view success;
  std::string_view failure;  ///< Result of a function that is not implemented.
  /// Part of the name of the wheel that contains the headers; empty: none.
  std::string_view wheel;
  /// SONAME, for a library that programs open by name and no other library needs.
  std::string_view always{};
  /// Header of the functions written by hand that the rules for generated functions call; empty:
  /// none.
  std::string_view own_header{};
};

/// Returns all libraries except nvrtc, because the real one works without a GPU.
std::span<const DeviceFamily> device_families();

/// Finds a library by name. Returns null if there is none.
const DeviceFamily* device_family(std::string_view name);

/// Finds the family of the library with this SONAME (libcublas.so.12), or null.
const DeviceFamily* family_of_library(std::string_view soname);

/// Finds the family that a function belongs to by its name, or null.
const DeviceFamily* family_of_function(std::string_view function);

}  // namespace optrace
