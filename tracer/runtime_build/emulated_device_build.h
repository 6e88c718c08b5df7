#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/private_folder.h"

namespace optrace {

/// The emulated CUDA device (tracer/emulated_device/), built for one torch: a library for each CUDA
/// library that torch's libraries need, with the real one's SONAME and symbol versions.
struct DeviceEmulation {
  /// The libraries to preload, in this order; empty if there are none. The first is
  /// liboptrace_device.so.
  std::vector<std::filesystem::path> libraries;
  /// If there are none: the reason and the remedy, in sentences.
  std::string missing;
  std::shared_ptr<const PrivateFolder> folder;  ///< Contains libraries that can't be cached.
};

/// Returns the emulated device for the torch in `torch_folder` (site-packages/torch), from the
/// user's cache. The first time, it is built with the user's C++ compiler ($CXX, else g++, c++ or
/// clang++) against the headers of the nvidia wheels beside that torch, else of $CUDA_HOME or, if
/// that is not set, /usr/local/cuda or the system's include folder; this is reported to `progress`.
/// The cache key contains everything that the build depends on: torch's version and libraries, the
/// compiler, the headers, and the emulation's own source. If it can't be built, `missing` has the
/// reason. Throws Error(interrupted) after a signal, if an InterruptGuard lives.
DeviceEmulation find_or_build_device_emulation(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress);

}  // namespace optrace
