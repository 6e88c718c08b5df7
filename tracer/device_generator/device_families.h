#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace optrace {

/// One of CUDA's libraries, as the emulated device has it.
struct DeviceFamily {
  static constexpr std::size_t kMost = 4;

  std::string_view name;  ///< Its sources are `name.cpp` and `name_*.cpp`.
  std::string_view stem;  ///< Of the library's file name: libcublas (.so.12).
  /// What its functions' names start with; an upper-case letter, `_` or a digit follows where the
  /// prefix ends in a letter, so that `cu` is not `cublas`.
  std::array<std::string_view, kMost> prefixes;
  std::array<std::string_view, kMost> headers;  ///< The first one must be there.
  std::string_view status;                      ///< The type that its functions return.
  std::string_view success;
  std::string_view failure;   ///< What a function returns that nobody has thought about.
  std::string_view wheel;     ///< Part of the wheel's name that brings the headers; empty: none.
  std::string_view always{};  ///< SONAME, for what programs open by name and no library needs.
};

/// All of them but nvrtc, of which the real one works without a GPU.
std::span<const DeviceFamily> device_families();

/// By name; null if there is none.
const DeviceFamily* device_family(std::string_view name);

/// The family of the library that has this SONAME (libcublas.so.12); null for others.
const DeviceFamily* family_of_library(std::string_view soname);

/// The family that a function belongs to, by its name; null for others.
const DeviceFamily* family_of_function(std::string_view function);

}  // namespace optrace
