#pragma once

// What traces and reports say of a recording in the same words. C++17, because the reader library
// that other programs link includes it.

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>

#include "pytorch/values/values.h"

namespace optrace {

/// The PyTorch that was traced. What is unknown is empty.
struct TorchBuild {
  std::string version;
  std::string git_version;
  std::string cuda;           ///< Version of CUDA; empty for a build without it.
  std::optional<bool> debug;  ///< A debug build.

  auto fields() const { return std::tie(version, git_version, cuda, debug); }
};

/// The CUDA device that was emulated.
struct EmulatedDevice {
  std::string arch;       ///< `sm_90`
  std::string gpu_model;  ///< The product whose properties it has.
  std::uint64_t devices = 0;

  auto fields() const { return std::tie(arch, gpu_model, devices); }
};

/// The steps of a program that were to be recorded.
struct RecordedSteps {
  std::uint64_t first = 0;  ///< The program's first one is 1.
  std::uint64_t count = 0;  ///< 0: all from the first one on.
  /// The last step that had ended when recording ended.
  std::optional<std::uint64_t> ended_after;

  auto fields() const { return std::tie(first, count, ended_after); }
};

/// A process that was recorded.
struct ReportProcess {
  std::optional<std::uint64_t> id;
  std::optional<std::uint64_t> rank;  ///< As assigned by torchrun.

  auto fields() const { return std::tie(id, rank); }
};

}  // namespace optrace
