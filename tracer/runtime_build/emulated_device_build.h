#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "platform/private_folder.h"

namespace optrace {

/// The emulated CUDA device (tracer/emulated_device/), built for one torch: a library for each
/// CUDA library that torch's own need, with the real one's SONAME and symbol versions.
struct DeviceEmulation {
  /// To preload, in this order; empty if there are none. The first is liboptrace_device.so.
  std::vector<std::filesystem::path> libraries;
  std::string missing;                          ///< Then: why, and how to get them, in sentences.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the libraries where no cache can.
};

/// The emulated device for the torch in `torch_folder` (site-packages/torch), from the user's cache
/// or, the first time, built with the user's C++ compiler ($CXX, else g++, c++ or clang++) against
/// the headers of the nvidia wheels beside that torch, else of $CUDA_HOME or, where that is not
/// set, /usr/local/cuda or the system's include folder; `progress` is told then. Cached by what it
/// depends on: torch's version and libraries, the compiler, the headers, and the emulation's own
/// source. What can't be built is no error but says what is missing. Throws Error(interrupted)
/// after a signal, if an InterruptGuard lives.
DeviceEmulation find_or_build_device_emulation(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress);

}  // namespace optrace
