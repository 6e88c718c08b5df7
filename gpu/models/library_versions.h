#pragma once

// The versions that the emulated libraries report. A program may take another path for another
// version, so they are those of the libraries that torch brings, not those of the headers that the
// emulated libraries were built with. The command passes them in $OPTRACE_DRY_RUN_VERSIONS:
// "cuda=12.4,cudnn=9.1.0.70". It and the emulated device share this header.

#include <string_view>

namespace optrace::emulated {

/// How a library writes its version as one number: its first parts times these, added.
struct VersionScheme {
  /// "cuda" for CUDA itself, else the name of the library's wheel (DeviceFamily::wheel).
  std::string_view library;
  int major;
  int minor;
  int patch;
};

// clang-format off
constexpr VersionScheme kVersionSchemes[] = {
    {"cuda",        1000,  10, 0},  // CUDART_VERSION, CUDA_VERSION
    {"cublas",     10000, 100, 1},  // CUBLAS_VERSION
    {"cudnn",      10000, 100, 1},  // CUDNN_VERSION
    {"cufft",       1000, 100, 1},  // CUFFT_VERSION
    {"nccl",       10000, 100, 1},  // NCCL_VERSION_CODE
};
// clang-format on

constexpr const char* kVersionsVariable = "OPTRACE_DRY_RUN_VERSIONS";

}  // namespace optrace::emulated
