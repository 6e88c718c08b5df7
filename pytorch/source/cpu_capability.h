#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace optrace {

/// The capability that every CPU has.
inline constexpr std::string_view kBaselineCapability = "DEFAULT";

/// The CPU capabilities for which ATen compiles the files in aten/src/ATen/native/cpu, each in a
/// namespace of its name (aten/src/ATen/native/DispatchStub.h, Codegen.cmake; torch 2.6 to
/// 2.15). An x86-64 wheel has the first three.
inline constexpr auto kCpuCapabilities = std::to_array<std::string_view>(
    {kBaselineCapability, "AVX2", "AVX512", "VSX", "ZVECTOR", "SVE128", "SVE256"});

/// Returns true for a namespace of such a file's functions, but for the baseline's. CPU_CAPABILITY
/// is the macro for them, and the name itself where the build does not define it.
constexpr bool is_cpu_capability(std::string_view name) {
  return name == "CPU_CAPABILITY" ||
         (name != kBaselineCapability &&
          std::ranges::find(kCpuCapabilities, name) != kCpuCapabilities.end());
}

/// Returns the capability for which a file was compiled as a copy of its own: `AVX2` for
/// `add_kernel.cpp.AVX2.cpp`. Nothing for other files.
constexpr std::optional<std::string_view> capability_of_copy(std::string_view file) {
  constexpr std::string_view kEnding = ".cpp";
  if (!file.ends_with(kEnding)) return std::nullopt;
  file.remove_suffix(kEnding.size());
  const std::size_t dot = file.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view last = file.substr(dot + 1);
  if (std::ranges::find(kCpuCapabilities, last) == kCpuCapabilities.end()) return std::nullopt;
  return last;
}

/// Returns `add_kernel.cpp` for `add_kernel.cpp.AVX2.cpp`, and other files unchanged.
constexpr std::string_view without_capability(std::string_view file) {
  const auto capability = capability_of_copy(file);
  if (!capability) return file;
  return file.substr(0, static_cast<std::size_t>(capability->data() - file.data()) - 1);
}

}  // namespace optrace
