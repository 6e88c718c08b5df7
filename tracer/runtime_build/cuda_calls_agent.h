#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "platform/private_folder.h"

namespace optrace {

/// The library that records what torch asks of real CUDA libraries (tracer/in_process/cuda_calls/),
/// built for one torch.
struct CudaCallsAgent {
  std::filesystem::path library;  ///< Empty if there is none.
  std::string missing;  ///< Then: why, and how to get one, in sentences for a trace's warnings.
  std::shared_ptr<const PrivateFolder> folder;  ///< Holds the library where no cache can.
};

/// The one for the torch in `torch_folder` (site-packages/torch), from the user's cache or, the
/// first time, built with the user's C++ compiler against the headers of the nvidia wheels beside
/// that torch; `progress` is told then. What can't be built is no error but says what is missing.
/// Throws Error(interrupted) after a signal, if an InterruptGuard lives.
CudaCallsAgent find_or_build_cuda_calls_agent(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress);

}  // namespace optrace
