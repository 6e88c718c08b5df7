#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "platform/private_folder.h"

namespace optrace {

/// The library that records torch's calls of real CUDA libraries (tracer/in_process/cuda_calls/),
/// built for one torch.
struct CudaCallsAgent {
  std::filesystem::path library;  ///< Empty if there is none.
  /// If there is none: the reason and the remedy, in sentences for a trace's warnings.
  std::string missing;
  std::shared_ptr<const PrivateFolder> folder;  ///< Contains a library that can't be cached.
};

/// Returns the agent for the torch in `torch_folder` (site-packages/torch), from the user's cache.
/// The first time, it is built with the user's C++ compiler against the headers of the nvidia
/// wheels beside that torch, which is reported to `progress`. If it can't be built, `missing` has
/// the reason. Throws Error(interrupted) after a signal, if an InterruptGuard lives.
CudaCallsAgent find_or_build_cuda_calls_agent(
    const std::filesystem::path& torch_folder,
    const std::function<void(std::string_view)>& progress);

}  // namespace optrace
